// The requests of one connected queue pair that are not complete: a ring allocated once.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>

#include "daemon/base/types.hpp"
#include "daemon/transport/environment.hpp"

namespace softhca::transport {

/// Counters run free over 32 bits; a slot is counter & mask.
class SendQueue {
 public:
  struct Slot {
    Request request;
    Psn first;                  ///< PSN of the first packet (of the first response of a read)
    std::uint32_t packets = 0;  ///< PSNs the request takes
    Psn sequence;               ///< SSN: number of its message, 24 bits (specification 9.7.7.2.2)
  };

  /// Set-up time only. Forgets what the ring held.
  void set_capacity(std::uint32_t requests) {
    const std::uint32_t size = std::bit_ceil(requests == 0 ? 1u : requests);
    slots_ = std::make_unique<Slot[]>(size);
    mask_ = size - 1;
    capacity_ = requests;
    oldest_ = newest_ = 0;
  }
  void clear() { oldest_ = newest_ = 0; }

  bool empty() const { return oldest_ == newest_; }
  bool full() const { return newest_ - oldest_ >= capacity_; }
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t newest() const { return newest_; }
  Slot& operator[](std::uint32_t counter) { return slots_[counter & mask_]; }
  const Slot& operator[](std::uint32_t counter) const { return slots_[counter & mask_]; }

  Slot& push() {
    assert(!full());
    return slots_[newest_++ & mask_];
  }
  /// The oldest request is over; returns its cookie.
  std::uint32_t pop() {
    assert(!empty());
    return slots_[oldest_++ & mask_].request.cookie;
  }

 private:
  std::unique_ptr<Slot[]> slots_;
  std::uint32_t mask_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t oldest_ = 0;  ///< oldest request that is not complete
  std::uint32_t newest_ = 0;  ///< one beyond the request started last
};

}  // namespace softhca::transport
