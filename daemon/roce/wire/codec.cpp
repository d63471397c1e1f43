// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/codec.hpp"

#include <cassert>
#include <cstring>

#include "daemon/base/endian.hpp"

namespace softhca::wire {

namespace {

// Base transport header, byte 1.
constexpr std::uint8_t kSolicitedBit = 0x80;
constexpr std::uint8_t kMigratedBit = 0x40;
constexpr unsigned kPadShift = 4;
constexpr std::uint8_t kVersionMask = 0x0f;
// Bytes 4 to 7 and 8 to 11: flags, and a number in the low 24 bits.
constexpr std::uint32_t kFecnBit = 0x8000'0000;
constexpr std::uint32_t kBecnBit = 0x4000'0000;
constexpr std::uint32_t kAckRequestBit = 0x8000'0000;
constexpr std::uint32_t kNumber = 0xff'ffff;

constexpr std::size_t kCnpReservedLength = 16;

void decode_base(const std::byte* p, Headers& h) {
  const auto flags = std::to_integer<std::uint8_t>(p[1]);
  const auto destination = load_be<std::uint32_t>(p + 4);
  const auto psn = load_be<std::uint32_t>(p + 8);
  h.opcode = std::to_integer<std::uint8_t>(p[0]);
  h.solicited = flags & kSolicitedBit;
  h.migrated = flags & kMigratedBit;
  h.pad = (flags >> kPadShift) & 3;
  h.pkey = load_be<std::uint16_t>(p + 2);
  h.fecn = destination & kFecnBit;
  h.becn = destination & kBecnBit;
  h.destination = Qpn(destination & kNumber);
  h.ack_request = psn & kAckRequestBit;
  h.psn = Psn(psn);
}

/// Decodes the extended headers. REQUIRES: the packet has at least header_bytes(mask) bytes, and
/// `p` is just behind the base header.
void decode_extended(const std::byte* p, OpcodeMask mask, Headers& h) {
  if (mask.has_any(kDeth)) {
    h.qkey = load_be<std::uint32_t>(p);
    h.source = Qpn(load_be24(p + 5));
    p += 8;
  }
  if (mask.has_any(kXrcEth)) {
    h.xrc_srq = load_be24(p + 1);
    p += 4;
  }
  if (mask.has_any(kFeth)) {
    h.flush = load_be<std::uint32_t>(p);
    p += 4;
  }
  if (mask.has_any(kReth)) {
    h.remote_addr = load_be<std::uint64_t>(p);
    h.rkey = Rkey(load_be<std::uint32_t>(p + 8));
    h.dma_length = load_be<std::uint32_t>(p + 12);
    p += 16;
  }
  if (mask.has_any(kAtomicEth)) {
    h.remote_addr = load_be<std::uint64_t>(p);
    h.rkey = Rkey(load_be<std::uint32_t>(p + 8));
    h.swap_add = load_be<std::uint64_t>(p + 12);
    h.compare = load_be<std::uint64_t>(p + 20);
    p += 28;
  }
  if (mask.has_any(kAeth)) {
    h.syndrome = std::to_integer<std::uint8_t>(p[0]);
    h.msn = load_be24(p + 1);
    p += 4;
  }
  if (mask.has_any(kAtomicAckEth)) {
    h.original = load_be<std::uint64_t>(p);
    p += 8;
  }
  if (mask.has_any(kImmDt)) {
    std::memcpy(&h.imm, p, sizeof h.imm);
    p += 4;
  }
  if (mask.has_any(kIeth)) h.invalidate = Rkey(load_be<std::uint32_t>(p));
}

void encode_base(const Headers& h, std::size_t pad, std::byte* p) {
  p[0] = std::byte(h.opcode);
  p[1] = std::byte((h.solicited ? kSolicitedBit : 0) | (h.migrated ? kMigratedBit : 0) |
                   pad << kPadShift);
  store_be(p + 2, h.pkey);
  store_be(p + 4,
           (h.fecn ? kFecnBit : 0) | (h.becn ? kBecnBit : 0) | (h.destination.value & kNumber));
  store_be(p + 8, (h.ack_request ? kAckRequestBit : 0) | h.psn.value());
}

void encode_extended(const Headers& h, OpcodeMask mask, std::byte* p) {
  if (mask.has_any(kDeth)) {
    store_be(p, h.qkey);
    p[4] = std::byte(0);
    store_be24(p + 5, h.source.value);
    p += 8;
  }
  if (mask.has_any(kXrcEth)) {
    p[0] = std::byte(0);
    store_be24(p + 1, h.xrc_srq);
    p += 4;
  }
  if (mask.has_any(kFeth)) {
    store_be(p, h.flush);
    p += 4;
  }
  if (mask.has_any(kReth)) {
    store_be(p, h.remote_addr);
    store_be(p + 8, h.rkey.value);
    store_be(p + 12, h.dma_length);
    p += 16;
  }
  if (mask.has_any(kAtomicEth)) {
    store_be(p, h.remote_addr);
    store_be(p + 8, h.rkey.value);
    store_be(p + 12, h.swap_add);
    store_be(p + 20, h.compare);
    p += 28;
  }
  if (mask.has_any(kAeth)) {
    p[0] = std::byte(h.syndrome);
    store_be24(p + 1, h.msn);
    p += 4;
  }
  if (mask.has_any(kAtomicAckEth)) {
    store_be(p, h.original);
    p += 8;
  }
  if (mask.has_any(kImmDt)) {
    std::memcpy(p, &h.imm, sizeof h.imm);
    p += 4;
  }
  if (mask.has_any(kIeth)) store_be(p, h.invalidate.value);
  if (mask.has_any(kCnpReserved)) std::memset(p, 0, kCnpReservedLength);
}

}  // namespace

DropReason decode(std::span<const std::byte> packet, Headers& out) {
  if (packet.size() < kBthLength) return DropReason::kShortPacket;
  const std::byte* p = packet.data();
  if (std::to_integer<std::uint8_t>(p[1]) & kVersionMask) return DropReason::kBadVersion;
  const OpcodeInfo& info = opcode_info(std::to_integer<std::uint8_t>(p[0]));
  if (!info.is_known()) return DropReason::kUnknownOpcode;
  if (packet.size() < info.header_length) return DropReason::kShortPacket;

  out = Headers{};
  decode_base(p, out);
  decode_extended(p + kBthLength, info.mask, out);

  const std::size_t rest = packet.size() - info.header_length;
  if (rest != 0 && !info.mask.has_any(kPayload)) return DropReason::kUnexpectedPayload;
  if (rest < out.pad || rest % 4 != 0) return DropReason::kBadPad;
  return DropReason::kNone;
}

std::size_t encode(const Headers& h, std::size_t payload_length, std::byte* to) {
  const OpcodeInfo& info = opcode_info(h.opcode);
  assert(info.is_known());
  encode_base(h, pad_for(payload_length), to);
  encode_extended(h, info.mask, to + kBthLength);
  return info.header_length;
}

}  // namespace softhca::wire
