// SPDX-License-Identifier: Apache-2.0

// The incomplete requests of one queue pair, oldest first. Each lies in a PCB, and the transport
// state of it in a table beside the PCBs. So a queue pair without requests takes no space in that
// table, however deep its send queue is.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::transport {

/// A request in progress.
struct alignas(64) RequestSlot {
  Request request;
  Psn first;                      ///< PSN of the first packet (of the first response of a read)
  std::uint32_t packets = 0;      ///< PSNs the request takes
  Psn sequence;                   ///< SSN: number of its message, 24 bits (specification 9.7.7.2.2)
  std::uint32_t next = kNoIndex;  ///< in its send queue

  /// Returns the index of the packet with this PSN.
  std::uint32_t index_of(Psn psn) const { return (psn - first.value()).value(); }
};
static_assert(sizeof(RequestSlot) == 64);

/// Requests of all queue pairs, indexed by PCB.
using RequestTable = std::vector<RequestSlot>;

class SendQueue {
 public:
  /// No request.
  static constexpr PcbId kEnd{kNoIndex};

  /// Sets the table, which outlives the queue, and the maximum number of requests. Call it once,
  /// before the first request.
  void open(RequestTable& table, std::uint32_t capacity) {
    slots_ = table.data();
    capacity_ = capacity;
    clear();
  }
  /// Drops all requests.
  void clear() {
    oldest_ = newest_ = kEnd;
    size_ = 0;
  }

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ >= capacity_; }
  std::uint32_t size() const { return size_; }
  PcbId oldest() const { return oldest_; }  ///< kEnd if empty
  /// Returns the next request after one in the queue; kEnd: it is the newest.
  PcbId next(PcbId pcb) const { return PcbId(slots_[pcb.value].next); }
  RequestSlot& operator[](PcbId pcb) { return slots_[pcb.value]; }
  const RequestSlot& operator[](PcbId pcb) const { return slots_[pcb.value]; }
  /// REQUIRES: !empty().
  const Request& front() const { return slots_[oldest_.value].request; }

  /// Adds a request. REQUIRES: !full(), and no queue holds a request in the same PCB.
  RequestSlot& push(const Request& request) {
    assert(!full());
    RequestSlot& slot = slots_[request.pcb.value];
    slot.request = request;
    slot.next = kNoIndex;
    (empty() ? oldest_.value : slots_[newest_.value].next) = request.pcb.value;
    newest_ = request.pcb;
    ++size_;
    return slot;
  }
  /// Puts back a request that pop() returned.
  void push_front(PcbId pcb) {
    slots_[pcb.value].next = oldest_.value;
    if (empty()) newest_ = pcb;
    oldest_ = pcb;
    ++size_;
  }
  /// Returns the last request of the run, from the oldest on, for which `is_one` holds; kEnd: none.
  template <class IsOne>
  PcbId last_of_first(IsOne&& is_one) const {
    PcbId last = kEnd;
    for (PcbId pcb = oldest_; pcb != kEnd && is_one((*this)[pcb]); pcb = next(pcb)) last = pcb;
    return last;
  }
  /// Removes the requests behind `last` (kEnd: all) and calls visit(pcb) for each, oldest first.
  template <class Visit>
  void cut_behind(PcbId last, Visit&& visit) {
    PcbId pcb = last == kEnd ? oldest_ : next(last);
    newest_ = last;
    (last == kEnd ? oldest_.value : slots_[last.value].next) = kNoIndex;
    while (pcb != kEnd) {
      const PcbId after = next(pcb);
      --size_;
      visit(pcb);
      pcb = after;
    }
  }
  /// Removes and returns the oldest request. REQUIRES: !empty().
  PcbId pop() {
    assert(!empty());
    const PcbId pcb = oldest_;
    oldest_ = next(pcb);
    --size_;
    return pcb;
  }

 private:
  RequestSlot* slots_ = nullptr;
  PcbId oldest_ = kEnd;
  PcbId newest_ = kEnd;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;
};

}  // namespace softhca::transport
