// The engine's side of a send queue (abi/rings.hpp): fetches commands by sequence number; behind
// them the place for a doorbell that has overflowed (mechanism B4).
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <optional>

#include "abi/session.hpp"
#include "daemon/shm/untrusted.hpp"

namespace softhca::shm {

class SendRing {
 public:
  /// Shared memory a ring takes.
  static constexpr std::size_t bytes_for(std::uint32_t entries, std::uint32_t stride) {
    return overflow_offset(entries, stride) + abi::kOverflowBytes;
  }

  SendRing() = default;
  /// `base`: bytes_for() bytes that outlive the view; entries a power of two; stride of
  /// abi::send_stride().
  SendRing(std::byte* base, std::uint32_t entries, std::uint32_t stride)
      : base_(base),
        overflow_(base + overflow_offset(entries, stride)),
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
    std::memcpy(overflow_, &doorbell, sizeof doorbell);
  }
  /// What lies in its place now; nothing: no doorbell of this queue pair. The sequence number is
  /// the tenant's claim.
  std::optional<std::uint32_t> read_overflow(std::uint32_t qpn) const {
    abi::Doorbell doorbell;
    copy_once(&doorbell, overflow_, sizeof doorbell);
    if (doorbell.qpn != qpn) return std::nullopt;
    return doorbell.sequence;
  }

 private:
  static constexpr std::size_t overflow_offset(std::uint32_t entries, std::uint32_t stride) {
    return (std::size_t{entries} * stride + 63) / 64 * 64;
  }
  const std::byte* slot(std::uint32_t sequence) const {
    return base_ + std::size_t{sequence & mask_} * stride_;
  }

  const std::byte* base_ = nullptr;
  std::byte* overflow_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t stride_ = 0;
  std::uint32_t room_ = 0;  ///< bytes of payload a slot holds
};

}  // namespace softhca::shm
