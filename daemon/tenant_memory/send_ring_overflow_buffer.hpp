// SPDX-License-Identifier: Apache-2.0

// The engine's side of a send queue (abi/rings.hpp). It fetches commands by sequence number. Behind
// the commands lie the place for an overflowed doorbell (mechanism B4) and the time at which the
// sampled command was posted.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <optional>

#include "abi/rings.hpp"
#include "abi/session.hpp"
#include "daemon/base/time.hpp"
#include "daemon/tenant_memory/untrusted.hpp"

namespace softhca::shm {

class SendRing {
 public:
  /// Returns the shared memory of a ring in bytes.
  static constexpr std::size_t bytes_for(std::uint32_t entries, std::uint32_t stride) {
    return abi::send_ring_tail(entries, stride) + sizeof(abi::SendRingTail);
  }

  SendRing() = default;
  /// `base`: bytes_for() bytes that outlive the view. `entries` is a power of two, `stride` a value
  /// of abi::send_stride().
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

  /// Copies the command in the slot of `sequence`, with as much payload as the header says. Not kOk
  /// (kLocalQpOperation): the payload length is impossible; `header` is filled, `payload` is not.
  /// `payload` has room for kCommandPayloadBytes. The qpn and the sequence in the header are the
  /// tenant's claims: compare them, or overwrite them with the true values.
  Verdict copy(std::uint32_t sequence, abi::CommandHeader& header, std::byte* payload) const {
    const std::byte* from = slot(sequence);
    copy_once(&header, from, sizeof header);
    __builtin_prefetch(slot(sequence + 1));
    const Verdict verdict = check_payload(header, room_);
    if (verdict == Verdict::kOk)
      copy_once(payload, from + abi::kCommandHeaderBytes, header.payload_bytes);
    return verdict;
  }

  /// Moves a doorbell from the daemon to the tenant's memory (mechanism B4).
  void write_overflow(std::uint32_t qpn, std::uint32_t sequence_end) {
    const abi::Doorbell doorbell{qpn, sequence_end};
    std::memcpy(&tail_->overflow, &doorbell, sizeof doorbell);
  }
  /// Returns the sequence number of the overflowed doorbell, which is the tenant's claim. Nothing:
  /// the memory holds no doorbell of this queue pair.
  std::optional<std::uint32_t> read_overflow(std::uint32_t qpn) const {
    abi::Doorbell doorbell;
    copy_once(&doorbell, &tail_->overflow, sizeof doorbell);
    if (doorbell.qpn != qpn) return std::nullopt;
    return doorbell.sequence;
  }
  /// Returns how long before `now` the sampled command was posted, as the tenant claims. Nothing:
  /// the tenant did not stamp this command.
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
  std::uint32_t room_ = 0;  ///< payload bytes that a slot holds
};

}  // namespace softhca::shm
