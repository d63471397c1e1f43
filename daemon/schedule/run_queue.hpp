// Queue pairs with work, and whose turn it is: fairness between tenants in the engine's time.
//
// The arbitrator decides which commands start; what a started command costs, a copy of 16 bytes or
// of a gigabyte, is known only as it is done. Here tenants take turns by that cost, with the
// deficit round robin of FQ-CoDel (RFC 8290, 4.1.2): a tenant that has been idle goes before those
// that have not, for one quantum, so that whoever asks for little hardly waits for whoever asks
// for much; within a tenant its queue pairs take turns.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"

namespace softhca::schedule {

class RunQueue {
 public:
  /// Cost a tenant of weight 1 may run up per turn, in bytes moved: a short command or two. Who is
  /// not new waits for so much of each of the others.
  static constexpr std::int64_t kQuantum = 4 << 10;

  /// Set-up only: allocates.
  void reserve(std::uint32_t slots, std::uint16_t tenants) {
    entries_.resize(slots);
    rows_.resize(tenants);
  }

  /// Shares of the engine relative to the other tenants; at least 1.
  void set_weight(TenantId tenant, std::uint32_t weight) { rows_[tenant.value].weight = weight; }

  /// Nobody has work.
  bool empty() const { return queued_ == 0; }
  /// Tenants of little demand are among the others: one that was new was served ahead of them.
  bool overtaken() const { return overtaken_; }
  /// More than one tenant is at it.
  bool contended() const {
    const std::uint32_t first = fresh_.empty() ? old_.front() : fresh_.front();
    if (first == kNoIndex) return false;
    return (!fresh_.empty() && !old_.empty()) ||
           (fresh_.empty() ? old_.back() : fresh_.back()) != first;
  }
  bool contains(std::uint32_t slot) const { return entries_[slot].link.linked(); }

  /// A queue pair has work. Nothing happens if that is known.
  void push(std::uint32_t slot, TenantId tenant) {
    if (contains(slot)) return;
    Row& row = rows_[tenant.value];
    entries_[slot].tenant = tenant;
    row.queue.push_back(entries_.data(), slot);
    ++queued_;
    if (row.link.linked()) return;
    row.deficit = kQuantum * row.weight;
    row.fresh = true;
    fresh_.push_back(rows_.data(), tenant.value);
  }

  /// The next to be served; charge() its tenant afterwards.
  std::optional<std::uint32_t> pop() {
    for (;;) {
      TenantList& list = fresh_.empty() ? old_ : fresh_;
      const std::uint32_t tenant = list.front();
      if (tenant == kNoIndex) return std::nullopt;
      Row& row = rows_[tenant];
      if (row.deficit <= 0) {
        row.deficit += kQuantum * row.weight;
        make_old(tenant);
        continue;
      }
      const std::uint32_t slot = row.queue.pop_front(entries_.data());
      if (slot != kNoIndex) {
        --queued_;
        overtaken_ = row.fresh && !old_.empty();
        return slot;
      }
      // Out of work: one that was new waits out a round, or it would be new again at once.
      if (row.fresh)
        make_old(tenant);
      else
        old_.remove(rows_.data(), tenant);
    }
  }

  void charge(TenantId tenant, std::uint64_t cost) {
    rows_[tenant.value].deficit -= static_cast<std::int64_t>(cost);
  }

  /// Nothing happens if it is not queued.
  void remove(std::uint32_t slot) {
    if (!contains(slot)) return;
    rows_[entries_[slot].tenant.value].queue.remove(entries_.data(), slot);
    --queued_;
  }

 private:
  struct Entry {
    IndexLink link;
    TenantId tenant;
  };
  using SlotList = IndexList<Entry, &Entry::link>;
  struct Row {
    IndexLink link;  ///< in fresh_ or old_
    SlotList queue;
    std::int64_t deficit = 0;
    std::uint32_t weight = 1;
    bool fresh = false;
  };
  using TenantList = IndexList<Row, &Row::link>;

  void make_old(std::uint32_t tenant) {
    Row& row = rows_[tenant];
    (row.fresh ? fresh_ : old_).remove(rows_.data(), tenant);
    row.fresh = false;
    old_.push_back(rows_.data(), tenant);
  }

  std::vector<Entry> entries_;
  std::vector<Row> rows_;
  TenantList fresh_, old_;
  std::uint32_t queued_ = 0;
  bool overtaken_ = false;  ///< by what was popped last
};

}  // namespace softhca::schedule
