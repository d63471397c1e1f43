// SPDX-License-Identifier: Apache-2.0

// The engine's side of a receive queue or shared receive queue (abi/rings.hpp).
#pragma once

#include <bit>
#include <cassert>
#include <optional>

#include "abi/rings.hpp"
#include "daemon/tenant_memory/untrusted.hpp"

namespace softhca::shm {

/// A receive work request, private to the daemon. Its members have no initialisers: these would
/// touch the memory before take() fills it.
struct ReceiveWork {
  std::uint32_t index;  ///< the completion returns it
  std::uint32_t count;  ///< entries in use
  std::uint64_t bytes;  ///< sum of their lengths
  abi::ScatterGather entries[abi::kMaxSge];
};

static_assert(sizeof(ReceiveWork) == 272);

class ReceiveRing {
 public:
  /// Returns the shared memory of a ring in bytes.
  static constexpr std::size_t bytes_for(std::uint32_t entries, std::uint32_t max_sge) {
    return abi::receive_ring_tail(entries, abi::receive_stride(max_sge)) +
           sizeof(abi::ReceiveRingTail);
  }

  ReceiveRing() = default;
  /// `base`: bytes_for() bytes that outlive the view. `entries` is a power of two, max_sge <=
  /// kMaxSge. `taken`: the counter to continue from.
  ReceiveRing(std::byte* base, std::uint32_t entries, std::uint32_t max_sge,
              std::uint32_t taken = 0)
      : base_(base),
        mask_(entries - 1),
        stride_(abi::receive_stride(max_sge)),
        max_sge_(max_sge),
        taken_(taken),
        seen_(taken) {
    assert(std::has_single_bit(entries) && max_sge <= abi::kMaxSge);
  }

  std::uint32_t entries() const { return mask_ + 1; }
  std::uint32_t taken() const { return taken_; }

  /// Continues from a counter of an earlier engine.
  void resume(std::uint32_t taken) { taken_ = seen_ = taken; }
  /// Shared receive queue: these publish the counter, and the limit that is armed, for a later
  /// engine.
  void publish_taken() { tail().taken.store(taken_, std::memory_order_relaxed); }
  void publish_limit(std::uint32_t limit) { tail().limit.store(limit, std::memory_order_relaxed); }
  /// Says, for a later engine, that the queue has moved to this ring.
  void publish_move() { tail().moved.store(1, std::memory_order_release); }
  /// These return what the earlier engine has published. The tenant may write any value.
  std::uint32_t published_taken() const { return tail().taken.load(std::memory_order_relaxed); }
  std::uint32_t published_limit() const { return tail().limit.load(std::memory_order_relaxed); }
  bool published_move() const { return tail().moved.load(std::memory_order_acquire) != 0; }

  /// Restarts the counters at 0 on both sides, as the queue pair goes to RESET. The tenant writes
  /// its producer word before it posts, which it does after the reply.
  void restart() { taken_ = seen_ = 0; }

  /// Copies the ring to other memory (resize): writes the elements that available() saw and that
  /// are not taken, under the same counters. `base`: as for the constructor, zeroed. REQUIRES:
  /// known() <= `entries`.
  ReceiveRing copy_to(std::byte* base, std::uint32_t entries) const {
    ReceiveRing copy(base, entries, max_sge_, taken_);
    for (std::uint32_t at = taken_; at != seen_; ++at)
      copy_once(base + (copy.slot(at) - copy.base_), slot(at), stride_);
    reinterpret_cast<abi::ReceiveRingHeader*>(base)->producer.store(seen_,
                                                                    std::memory_order_release);
    copy.seen_ = seen_;
    copy.publish_taken();
    copy.publish_limit(published_limit());
    return copy;
  }
  /// Continues in a ring that copy_to() made, and keeps the current `taken` counter. Elements
  /// posted after copy_to() are lost; no honest tenant posts then.
  void replace(const ReceiveRing& copy) {
    const std::uint32_t taken = taken_;
    *this = copy;
    taken_ = taken;
    publish_taken();
  }

  /// Returns the number of posted work requests that are not taken. Nothing: the producer index is
  /// hostile.
  std::optional<std::uint32_t> available() {
    seen_ = header().producer.load(std::memory_order_acquire);
    const std::uint32_t count = seen_ - taken_;
    if (count > entries()) return std::nullopt;
    return count;
  }

  /// Returns the number of posted work requests at the last read of the producer index.
  std::uint32_t known() const { return seen_ - taken_; }

  /// Returns the counter behind the latest work request that available() saw.
  std::uint32_t posted() const { return seen_; }

  /// Returns the address of the first buffer of a work request, as the ring holds it now. It is a
  /// hint to tell buffers apart. 0: the request has no buffer.
  std::uint64_t first_address(std::uint32_t counter) const {
    abi::ReceiveElement element;
    copy_once(&element, slot(counter), sizeof element);
    if (element.num_sge == 0 || max_sge_ == 0) return 0;
    abi::ScatterGather first;
    copy_once(&first, slot(counter) + sizeof element, sizeof first);
    return first.addr;
  }

  /// Takes the oldest work request. kHostile: the producer index or the number of entries is
  /// impossible; nothing is taken, and the queue must not be used again. Addresses and keys in
  /// `out` are unvalidated.
  Take take(ReceiveWork& out) {
    if (seen_ == taken_) {
      seen_ = header().producer.load(std::memory_order_acquire);
      if (seen_ == taken_) return Take::kEmpty;
    }
    if (seen_ - taken_ > entries()) return Take::kHostile;
    const std::byte* from = slot(taken_);
    abi::ReceiveElement element;
    copy_once(&element, from, sizeof element);
    if (element.num_sge > max_sge_) return Take::kHostile;
    copy_once(out.entries, from + sizeof element, element.num_sge * sizeof out.entries[0]);
    out.index = element.index;
    out.count = element.num_sge;
    out.bytes = 0;
    for (std::uint32_t i = 0; i < out.count; ++i) out.bytes += out.entries[i].length;
    ++taken_;
    prefetch_next();
    return Take::kTaken;
  }

 private:
  const abi::ReceiveRingHeader& header() const {
    return *reinterpret_cast<const abi::ReceiveRingHeader*>(base_);
  }
  abi::ReceiveRingTail& tail() const {
    return *reinterpret_cast<abi::ReceiveRingTail*>(base_ +
                                                    abi::receive_ring_tail(entries(), stride_));
  }
  const std::byte* slot(std::uint32_t counter) const {
    return base_ + sizeof(abi::ReceiveRingHeader) + std::size_t{counter & mask_} * stride_;
  }
  void prefetch_next() const {
    __builtin_prefetch(slot(taken_));
    __builtin_prefetch(slot(taken_ + 2));
  }

  std::byte* base_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t stride_ = 0;
  std::uint32_t max_sge_ = 0;
  std::uint32_t taken_ = 0;
  std::uint32_t seen_ = 0;  ///< producer as last read
};

}  // namespace softhca::shm
