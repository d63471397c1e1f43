// SPDX-License-Identifier: Apache-2.0

// The region of a tenant that is a virtual machine: one memfd with all the memory that programs of
// the machine share with the daemon (abi/control.hpp). It begins with the VCB pages of the machine
// (mechanism A1), 64 for each session. Session memory and rings follow, then the part that the
// machine's agent gives to programs. Set-up path only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "abi/session.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/kept.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/tenant_memory/gaps.hpp"
#include "daemon/tenant_memory/shared_buffer.hpp"

namespace softhca::memory {

/// The values of metric softhca_machine_state.
enum class MachineState : std::uint8_t {
  kOff,
  kStarting,  ///< it has a monitor, and its agent has not started
  kRuns,
};

class Machine final : public PieceOwner, public std::enable_shared_from_this<Machine> {
 public:
  static constexpr std::size_t kProxyBytes = 2 << 20;  ///< room for an memory::ProxyArea

  /// How the daemon treats the memory. `account` ends with it.
  struct Terms {
    Unmap unmap{};
    LockMemory lock{};
    Keeping* keeping = nullptr;  ///< null: nothing outlives the adapter
    std::shared_ptr<void> account{};
    /// Gets the bytes in use for sessions and rings; null: they are not counted.
    std::shared_ptr<std::atomic<std::uint64_t>> queues_in_use{};
  };
  /// What an adapter that follows needs to adopt the region.
  struct KeptRegion {
    KeptId memory = 0;
    KeptId descriptor = 0;
    std::uint64_t bytes = 0;
    std::uint64_t begin = 0;
    std::uint32_t has_started = 0;
    std::uint32_t is_sealed = 0;
  };

  /// Makes the region. Errors: those of SealedMemory::create() and keep().
  static Expected<std::shared_ptr<Machine>> create(std::uint64_t bytes, Terms terms);
  /// Takes up the region of an earlier adapter. Error: EBADMSG, it is not kept.
  static Expected<std::shared_ptr<Machine>> adopt(const KeptRegion& kept, Terms terms);
  ~Machine() override;

  KeptRegion kept() const;
  std::uint64_t bytes() const { return memory_.bytes(); }

  /// Lays out the region from `begin` on. Offsets count from there. Errors: EINVAL, `begin` is not
  /// the start of a page, or leaves less than half of the region or no room for rings; EALREADY.
  Outcome start(std::uint64_t begin);
  bool has_started() const { return has_started_; }

  /// Returns a duplicate of the descriptor, to be sealed (SealedMemory::seal_holes).
  Expected<UniqueFd> descriptor_to_seal() const;
  /// Records that the region is sealed.
  void set_sealed() { is_sealed_ = true; }
  bool is_sealed() const { return is_sealed_; }

  // --- pieces. REQUIRES: it has started.

  /// Takes zeroed memory of at least `bytes`, in whole pages, for a session or rings. (A machine
  /// may have written to it, as it may at any time.) Error: ENOMEM.
  Expected<SealedMemory> take(std::size_t bytes);
  /// Takes the VCB pages of a session, zeroed. Error: ENOMEM, there are too many sessions.
  Expected<SealedMemory> take_vcbs();
  /// Takes up a piece of an earlier adapter, as SealedMemory::kept() named it. Error: EBADMSG, it
  /// is not free.
  Expected<SealedMemory> adopt(KeptId piece);
  /// True if SealedMemory::kept() of a piece gives such names.
  static bool is_piece(KeptId kept) { return (kept & kPieceMark) != 0; }

  /// Returns the part that programs register.
  std::shared_ptr<SharedBuffer> shared();
  SealedMemory::Piece shared_place() const {
    return {shared_begin_ - begin_, memory_.bytes() - shared_begin_};
  }

  /// Returns the bytes for sessions and rings.
  std::size_t rings_bytes() const { return shared_begin_ - rings_begin_ - kProxyBytes; }

  // --- memory of programs that is not in the region: the agent accesses it

  SealedMemory::Piece proxy_place() const { return {rings_begin_ - begin_, kProxyBytes}; }
  std::byte* proxy_area() const { return memory_.base() + rings_begin_; }
  /// A socket to the machine's agent; -1: there is none.
  void set_bell(int socket) { bell_ = socket; }
  int bell() const { return bell_; }
  /// Returns a number for the memory of a program.
  std::uint32_t next_memory() { return next_memory_++; }
  /// Gives none of the numbers up to `number` any more.
  void skip_memory(std::uint32_t number) { next_memory_ = std::max(next_memory_, number + 1); }

  int fd() const override { return fd_.get(); }
  void take_back(std::uint64_t offset, std::size_t bytes) override;

 private:
  static constexpr KeptId kPieceMark = KeptId{1} << 63;
  static constexpr unsigned kPageBits = 28;  ///< of a piece's first page, and of their number
  static constexpr std::size_t kVcbBytes = abi::kMaxVcbsPerSession * abi::kPageBytes;

  explicit Machine(Terms terms) : terms_(std::move(terms)) {}
  Expected<SealedMemory> take_from(Gaps& gaps, std::size_t bytes);
  SealedMemory make_piece(std::size_t at, std::size_t bytes);
  void count_queues(std::size_t at, std::int64_t bytes);

  const Terms terms_;
  SealedMemory memory_;
  UniqueFd fd_;
  Kept kept_fd_;
  int bell_ = -1;
  std::uint32_t next_memory_ = 1;
  // Offsets in the memory.
  std::uint64_t begin_ = 0;
  std::uint64_t rings_begin_ = 0;
  std::uint64_t shared_begin_ = 0;
  bool has_started_ = false;
  bool is_sealed_ = false;
  bool is_adopted_ = false;
  std::mutex mutex_;  ///< of what follows
  Gaps vcbs_;
  Gaps rings_;
  std::weak_ptr<SharedBuffer> shared_;
};

/// From where a session takes the memory that it shares with its process.
struct MemorySource {
  LockMemory lock{};
  Keeping* keeping = nullptr;                         ///< null: nothing outlives the adapter
  const std::shared_ptr<Machine>* machine = nullptr;  ///< null, or null there: memfds of its own

  /// Makes zeroed memory of at least `bytes`, and keeps it. Errors: as SealedMemory::create() and
  /// keep(), and Machine::take().
  Expected<SealedMemory> create(const char* name, std::size_t bytes) const;
  /// Takes up memory of an earlier adapter. Error: EBADMSG, nothing of this name is kept.
  Expected<SealedMemory> adopt(KeptId kept) const;
};

}  // namespace softhca::memory
