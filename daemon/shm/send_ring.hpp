// The engine's side of a send queue (abi/rings.hpp): fetches commands by sequence number; behind
// them the place for a doorbell that has overflowed (mechanism B4), and when a command was posted.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <optional>

#include "abi/rings.hpp"
#include "abi/session.hpp"
#include "daemon/base/time.hpp"
#include "daemon/shm/untrusted.hpp"

namespace softhca::shm {

class SendRing {
 public:
  /// Shared memory a ring takes.
  static constexpr std::size_t bytes_for(std::uint32_t entries, std::uint32_t stride) {
    return abi::send_ring_tail(entries, stride) + sizeof(abi::SendRingTail);
  }

  SendRing() = default;
  /// `base`: bytes_for() bytes that outlive the view; entries a power of two; stride of
  /// abi::send_stride().
  SendRing(std::byte* base, std::uint32_t entries, std::uint32_t stride)
      : base_(base),
        tail_(reinterpret_cast<abi::SendRingTail*>(base + abi::send_ring_tail(entries, stride))),
        mask_(entries - 1),
        stride_(stride),
        room_(
            std::min<std::uint32_t>(stride - abi::kCommandHeaderBytes, abi::kCommandPayloadBytes)) {
    assert(std::has_single_bit(entries) && stride >= abi::kCommandHeaderBytes);
  }

  std::uint32_t entries() const { return mask_ + 1; }

  /// Copies the command in the slot of `sequence`, payload only as far as used. Not kOk
  /// (kLocalQpOperation): payload length impossible; `header` is filled, `payload` is not.
  /// `payload` has room for kCommandPayloadBytes. The header's own qpn and sequence are the
  /// tenant's claims: compare them, or write the true ones over them.
  Verdict copy(std::uint32_t sequence, abi::CommandHeader& header, std::byte* payload) const {
    const std::byte* from = slot(sequence);
    copy_once(&header, from, sizeof header);
    __builtin_prefetch(slot(sequence + 1));
    const Verdict verdict = check_payload(header, room_);
    if (verdict == Verdict::kOk)
      copy_once(payload, from + abi::kCommandHeaderBytes, header.payload_bytes);
    return verdict;
  }

  /// A doorbell leaves the daemon for the tenant's memory.
  void write_overflow(std::uint32_t qpn, std::uint32_t sequence_end) {
    const abi::Doorbell doorbell{qpn, sequence_end};
    std::memcpy(&tail_->overflow, &doorbell, sizeof doorbell);
  }
  /// What lies in its place now; nothing: no doorbell of this queue pair. The sequence number is
  /// the tenant's claim.
  std::optional<std::uint32_t> read_overflow(std::uint32_t qpn) const {
    abi::Doorbell doorbell;
    copy_once(&doorbell, &tail_->overflow, sizeof doorbell);
    if (doorbell.qpn != qpn) return std::nullopt;
    return doorbell.sequence;
  }
  /// How long before `now` the sampled command was posted, as the tenant claims; nothing: it does
  /// not say.
  std::optional<Duration> posted_before(Time now, std::uint32_t sequence) const {
    const std::uint64_t stamp = tail_->posted.load(std::memory_order_relaxed);
    const auto ns = static_cast<std::uint64_t>(now.time_since_epoch().count());
    if (stamp == 0 || (stamp ^ abi::post_stamp(sequence, 0)) >> abi::kPostTimeBits != 0)
      return std::nullopt;
    return Duration(abi::post_stamp(0, ns - stamp));
  }

 private:
  const std::byte* slot(std::uint32_t sequence) const {
    return base_ + std::size_t{sequence & mask_} * stride_;
  }

  const std::byte* base_ = nullptr;
  abi::SendRingTail* tail_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t stride_ = 0;
  std::uint32_t room_ = 0;  ///< bytes of payload a slot holds
};

}  // namespace softhca::shm
