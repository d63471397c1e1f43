// SPDX-License-Identifier: Apache-2.0

// The identifiers of a tenant, by number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "daemon/roce/cm/state_records.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/identifier.hpp"

namespace softhca::management::rdma_cm {

class IdentifierTable {
 public:
  /// `records`: of the state, or null.
  explicit IdentifierTable(cm::StateRecords* records = nullptr)
      : records_(records), touched_(records) {}

  /// Records the identifiers that may have changed.
  void record_changes();
  /// Adds an identifier of an earlier adapter by its record. Returns null if the record does not
  /// fit.
  Identifier* restore(std::span<const std::byte> state);
  /// Call it when all are restored, before make().
  void end_restoring();

  /// Makes an identifier with the lowest free number. References to it are valid until it is
  /// erased.
  Identifier& make();
  void erase(IdentifierNumber number);

  /// Returns null if there is none.
  Identifier* find(std::uint32_t number);
  Identifier* find_cookie(std::uint64_t cookie);
  /// Finds the identifier that a command names. Returns 0, ENOENT if it does not exist, EINVAL if
  /// it belongs to another channel, or ENXIO, with `found` set, if the adapter is gone.
  int find_of(const ChannelCommand& command, std::uint32_t number, Identifier*& found) {
    return find_on(command.channel, command, number, found);
  }
  /// As find_of(), for an identifier of another channel than that of the command.
  int find_on(const Channel& channel, const ChannelCommand& command, std::uint32_t number,
              Identifier*& found);
  /// Like find_of(), but returns EINVAL if the identifier is not bound to an address.
  int find_bound(const ChannelCommand& command, std::uint32_t number, Identifier*& found);

  std::size_t size() const { return size_; }
  /// Returns the number of slots; every number in use is below it.
  std::uint32_t slots() const { return static_cast<std::uint32_t>(slots_.size()); }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& slot : slots_)
      if (slot) visit(std::as_const(*slot));
  }
  /// As for_each(), for a visit that changes identifiers.
  template <class Visit>
  void change_each(Visit&& visit) {
    for (const auto& slot : slots_) {
      if (!slot) continue;
      touched_.add(slot->number.value);
      visit(*slot);
    }
  }

 private:
  cm::StateRecords* records_;
  cm::Touched touched_;
  std::vector<std::unique_ptr<Identifier>> slots_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free_;
  std::uint32_t generations_ = 0;
  std::size_t size_ = 0;
};

}  // namespace softhca::management::rdma_cm
