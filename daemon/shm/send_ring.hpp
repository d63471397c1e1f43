// The engine's side of a send queue (abi/rings.hpp): fetches commands by sequence number.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>

#include "daemon/shm/untrusted.hpp"

namespace softhca::shm {

class SendRing {
 public:
  /// Shared memory a ring takes.
  static constexpr std::size_t bytes_for(std::uint32_t entries, std::uint32_t stride) {
    return std::size_t{entries} * stride;
  }

  SendRing() = default;
  /// `base`: entries * stride bytes that outlive the view; entries a power of two; stride of
  /// abi::send_stride().
  SendRing(const std::byte* base, std::uint32_t entries, std::uint32_t stride)
      : base_(base),
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

 private:
  const std::byte* slot(std::uint32_t sequence) const {
    return base_ + std::size_t{sequence & mask_} * stride_;
  }

  const std::byte* base_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t stride_ = 0;
  std::uint32_t room_ = 0;  ///< bytes of payload a slot holds
};

}  // namespace softhca::shm
