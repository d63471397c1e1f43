// SPDX-License-Identifier: Apache-2.0

// The keeper, as the adapter reaches it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/keeping.hpp"
#include "daemon/keeper/handover.hpp"

namespace softhca::keeper {

class KeeperLink final : public Keeping {
 public:
  /// REQUIRES: the keeper is of the same kHandoverVersion.
  explicit KeeperLink(const Handover& handover);

  Expected<KeptId> keep(int fd) override;
  Expected<KeptId> keep_memory(int fd, std::size_t bytes, KeptRole role) override;
  void close_descriptor(KeptId id) override;
  /// What the earlier adapter gave is dropped by drop_rest() only: if this adapter fails before,
  /// the next one needs it.
  void drop(KeptId id) override;
  UniqueFd descriptor(KeptId id) override;
  std::span<std::byte> memory(KeptId id) override;
  KeptId find(KeptRole role, KeptId after) override;
  /// Drops what the earlier adapter gave and this one has not taken up: nothing will name it.
  void drop_rest();

  /// Tells that this adapter serves.
  void ready();
  /// Asks for an upgrade. Returns an error if it cannot begin; else an order follows. ETIMEDOUT:
  /// the keeper does not answer, and may begin it later. `library`: path; empty: the installed one.
  Outcome upgrade(const std::string& library);
  /// Tells that the next adapter may start, and waits for the end of this process. REQUIRES:
  /// kRetire was ordered.
  [[noreturn]] void retired();

  /// Readable when an order has come, or the keeper has gone.
  int orders() const { return orders_.get(); }
  struct TakenOrder {
    OrderKind kind;
    std::string text;
  };
  /// Takes an order. Nothing: the keeper has gone.
  std::optional<TakenOrder> take_order();

  /// Returns if the keeper starts another adapter when this one fails.
  bool is_replaceable() const { return cause_ != Cause::kStart || is_ready_; }

  Cause cause() const { return cause_; }
  const Restarts& restarts() const { return shared_.restarts; }
  /// Returns what the last two adapters worked on when they ended by a fault of their own.
  Subject culprit() const { return Subject::of_word(shared_.faults.culprit.load()); }
  Pulse& engine_pulse() { return shared_.engine; }
  Pulse& control_pulse() { return shared_.control; }

 private:
  struct Inherited {
    UniqueFd fd;
    std::span<std::byte> memory;
    KeptRole role = KeptRole::kNone;
    bool taken = false;
  };
  Expected<KeptId> call(CallKind kind, const Call& call, int fd, std::string_view text = {});
  bool is_answered(std::chrono::milliseconds within) const;
  ssize_t receive(CallReply& reply) const;

  UniqueFd calls_, orders_;
  Shared& shared_;
  const Cause cause_;
  bool is_ready_ = false;
  std::mutex mutex_;
  bool is_owed_ = false;  ///< a reply that came too late, or comes yet
  std::map<KeptId, Inherited> inherited_;
};

}  // namespace softhca::keeper
