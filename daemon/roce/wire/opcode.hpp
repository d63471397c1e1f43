// SPDX-License-Identifier: Apache-2.0

// All opcodes of the base transport header: name, transport, extended headers and role, one row for
// each. Parser, builder and state machines read only this table (InfiniBand specification, volume
// 1, 9.2 table 38; annex A14 for XRC; annex A19 for flush and atomic write; annex A17 for the CNP).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace softhca::wire {

enum class Opcode : std::uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyImm = 0x0b,
  kRcReadRequest = 0x0c,
  kRcReadResponseFirst = 0x0d,
  kRcReadResponseMiddle = 0x0e,
  kRcReadResponseLast = 0x0f,
  kRcReadResponseOnly = 0x10,
  kRcAck = 0x11,
  kRcAtomicAck = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInvalidate = 0x16,
  kRcSendOnlyInvalidate = 0x17,
  kRcFlush = 0x1c,
  kRcAtomicWrite = 0x1d,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastImm = 0x29,
  kUcWriteOnly = 0x2a,
  kUcWriteOnlyImm = 0x2b,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
  kXrcSendFirst = 0xa0,
  kXrcSendMiddle = 0xa1,
  kXrcSendLast = 0xa2,
  kXrcSendLastImm = 0xa3,
  kXrcSendOnly = 0xa4,
  kXrcSendOnlyImm = 0xa5,
  kXrcWriteFirst = 0xa6,
  kXrcWriteMiddle = 0xa7,
  kXrcWriteLast = 0xa8,
  kXrcWriteLastImm = 0xa9,
  kXrcWriteOnly = 0xaa,
  kXrcWriteOnlyImm = 0xab,
  kXrcReadRequest = 0xac,
  kXrcReadResponseFirst = 0xad,
  kXrcReadResponseMiddle = 0xae,
  kXrcReadResponseLast = 0xaf,
  kXrcReadResponseOnly = 0xb0,
  kXrcAck = 0xb1,
  kXrcAtomicAck = 0xb2,
  kXrcCompareSwap = 0xb3,
  kXrcFetchAdd = 0xb4,
  kXrcSendLastInvalidate = 0xb6,
  kXrcSendOnlyInvalidate = 0xb7,
};

/// Returns the value of Headers::opcode.
constexpr std::uint8_t raw(Opcode o) { return static_cast<std::uint8_t>(o); }

/// An RC opcode with these bits set is the XRC opcode for the same operation.
inline constexpr std::uint8_t kXrcBits = 0xa0;
/// True if `opcode` has the operation of `rc`, an opcode of RC. The low five bits are the
/// operation, the others the transport.
constexpr bool does(std::uint8_t opcode, Opcode rc) { return (opcode & 0x1f) == raw(rc); }

enum class Transport : std::uint8_t { kNone, kRc, kUc, kUd, kXrc, kCnp };

/// A set of properties of an opcode. Its own type prevents a test against an opcode or a state by
/// mistake.
class OpcodeMask {
 public:
  constexpr OpcodeMask() = default;
  static constexpr OpcodeMask bit(unsigned n) { return OpcodeMask(std::uint32_t{1} << n); }

  constexpr OpcodeMask operator|(OpcodeMask o) const { return OpcodeMask(bits_ | o.bits_); }
  constexpr bool operator==(const OpcodeMask&) const = default;
  constexpr bool has_all(OpcodeMask o) const { return (bits_ & o.bits_) == o.bits_; }
  constexpr bool has_any(OpcodeMask o) const { return (bits_ & o.bits_) != 0; }

 private:
  constexpr explicit OpcodeMask(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};

// Extended headers, in the order in which they follow the base transport header.
inline constexpr OpcodeMask kDeth = OpcodeMask::bit(0);
inline constexpr OpcodeMask kXrcEth = OpcodeMask::bit(1);
inline constexpr OpcodeMask kFeth = OpcodeMask::bit(20);
inline constexpr OpcodeMask kReth = OpcodeMask::bit(2);
inline constexpr OpcodeMask kAtomicEth = OpcodeMask::bit(3);
inline constexpr OpcodeMask kAeth = OpcodeMask::bit(4);
inline constexpr OpcodeMask kAtomicAckEth = OpcodeMask::bit(5);
inline constexpr OpcodeMask kImmDt = OpcodeMask::bit(6);
inline constexpr OpcodeMask kIeth = OpcodeMask::bit(7);
inline constexpr OpcodeMask kCnpReserved = OpcodeMask::bit(8);
// Role.
inline constexpr OpcodeMask kRequest = OpcodeMask::bit(9);
inline constexpr OpcodeMask kResponse = OpcodeMask::bit(10);
// Position in the message; an "only" packet is start and end.
inline constexpr OpcodeMask kStart = OpcodeMask::bit(11);
inline constexpr OpcodeMask kMiddle = OpcodeMask::bit(12);
inline constexpr OpcodeMask kEnd = OpcodeMask::bit(13);
inline constexpr OpcodeMask kOnly = kStart | kEnd;
// Operation.
inline constexpr OpcodeMask kSend = OpcodeMask::bit(14);
inline constexpr OpcodeMask kWrite = OpcodeMask::bit(15);
inline constexpr OpcodeMask kRead = OpcodeMask::bit(16);
inline constexpr OpcodeMask kAtomic = OpcodeMask::bit(17);
/// A read response without data answers flushes and atomic writes.
inline constexpr OpcodeMask kFlush = OpcodeMask::bit(21);
inline constexpr OpcodeMask kAtomicWrite = OpcodeMask::bit(19);
/// Has its own kind of response, which acknowledges this request and all before it.
inline constexpr OpcodeMask kAnswered = kRead | kAtomic | kFlush | kAtomicWrite;
/// A payload may follow the headers.
inline constexpr OpcodeMask kPayload = OpcodeMask::bit(18);

inline constexpr std::size_t kBthLength = 12;
/// Longest headers of any opcode: base header, XRCETH and AtomicETH.
inline constexpr std::size_t kMaxHeaderLength = 44;

/// Returns the bytes of the base transport header and the extended headers in `m`.
constexpr std::size_t header_bytes(OpcodeMask m) {
  return kBthLength + (m.has_any(kDeth) ? 8 : 0) + (m.has_any(kXrcEth) ? 4 : 0) +
         (m.has_any(kFeth) ? 4 : 0) + (m.has_any(kReth) ? 16 : 0) +
         (m.has_any(kAtomicEth) ? 28 : 0) + (m.has_any(kAeth) ? 4 : 0) +
         (m.has_any(kAtomicAckEth) ? 8 : 0) + (m.has_any(kImmDt) ? 4 : 0) +
         (m.has_any(kIeth) ? 4 : 0) + (m.has_any(kCnpReserved) ? 16 : 0);
}

struct OpcodeInfo {
  const char* name = "UNKNOWN";
  OpcodeMask mask;
  Transport transport = Transport::kNone;  ///< kNone: no such opcode
  std::uint8_t header_length = 0;          ///< bytes, including the base transport header

  constexpr bool is_known() const { return transport != Transport::kNone; }
};

namespace detail {

struct OpcodeRow {
  Opcode opcode;
  const char* name;
  OpcodeMask mask;
};

inline constexpr OpcodeMask kSendData = kRequest | kSend | kPayload;
inline constexpr OpcodeMask kWriteData = kRequest | kWrite | kPayload;
inline constexpr OpcodeMask kReadData = kResponse | kRead | kPayload;
inline constexpr OpcodeMask kAtomicCall = kRequest | kAtomic | kOnly | kAtomicEth;

inline constexpr OpcodeRow kOpcodeRows[] = {
    {Opcode::kRcSendFirst, "RC_SEND_FIRST", kSendData | kStart},
    {Opcode::kRcSendMiddle, "RC_SEND_MIDDLE", kSendData | kMiddle},
    {Opcode::kRcSendLast, "RC_SEND_LAST", kSendData | kEnd},
    {Opcode::kRcSendLastImm, "RC_SEND_LAST_IMM", kSendData | kEnd | kImmDt},
    {Opcode::kRcSendOnly, "RC_SEND_ONLY", kSendData | kOnly},
    {Opcode::kRcSendOnlyImm, "RC_SEND_ONLY_IMM", kSendData | kOnly | kImmDt},
    {Opcode::kRcWriteFirst, "RC_WRITE_FIRST", kWriteData | kStart | kReth},
    {Opcode::kRcWriteMiddle, "RC_WRITE_MIDDLE", kWriteData | kMiddle},
    {Opcode::kRcWriteLast, "RC_WRITE_LAST", kWriteData | kEnd},
    {Opcode::kRcWriteLastImm, "RC_WRITE_LAST_IMM", kWriteData | kEnd | kImmDt},
    {Opcode::kRcWriteOnly, "RC_WRITE_ONLY", kWriteData | kOnly | kReth},
    {Opcode::kRcWriteOnlyImm, "RC_WRITE_ONLY_IMM", kWriteData | kOnly | kReth | kImmDt},
    {Opcode::kRcReadRequest, "RC_READ_REQ", kRequest | kRead | kOnly | kReth},
    {Opcode::kRcReadResponseFirst, "RC_READ_RESP_FIRST", kReadData | kStart | kAeth},
    {Opcode::kRcReadResponseMiddle, "RC_READ_RESP_MIDDLE", kReadData | kMiddle},
    {Opcode::kRcReadResponseLast, "RC_READ_RESP_LAST", kReadData | kEnd | kAeth},
    {Opcode::kRcReadResponseOnly, "RC_READ_RESP_ONLY", kReadData | kOnly | kAeth},
    {Opcode::kRcAck, "RC_ACK", kResponse | kOnly | kAeth},
    {Opcode::kRcAtomicAck, "RC_ATOMIC_ACK", kResponse | kAtomic | kOnly | kAeth | kAtomicAckEth},
    {Opcode::kRcCompareSwap, "RC_CMP_SWAP", kAtomicCall},
    {Opcode::kRcFetchAdd, "RC_FETCH_ADD", kAtomicCall},
    {Opcode::kRcSendLastInvalidate, "RC_SEND_LAST_INV", kSendData | kEnd | kIeth},
    {Opcode::kRcSendOnlyInvalidate, "RC_SEND_ONLY_INV", kSendData | kOnly | kIeth},
    {Opcode::kRcFlush, "RC_FLUSH", kRequest | kFlush | kOnly | kFeth | kReth},
    {Opcode::kRcAtomicWrite, "RC_ATOMIC_WRITE", kRequest | kAtomicWrite | kPayload | kOnly | kReth},

    {Opcode::kUcSendFirst, "UC_SEND_FIRST", kSendData | kStart},
    {Opcode::kUcSendMiddle, "UC_SEND_MIDDLE", kSendData | kMiddle},
    {Opcode::kUcSendLast, "UC_SEND_LAST", kSendData | kEnd},
    {Opcode::kUcSendLastImm, "UC_SEND_LAST_IMM", kSendData | kEnd | kImmDt},
    {Opcode::kUcSendOnly, "UC_SEND_ONLY", kSendData | kOnly},
    {Opcode::kUcSendOnlyImm, "UC_SEND_ONLY_IMM", kSendData | kOnly | kImmDt},
    {Opcode::kUcWriteFirst, "UC_WRITE_FIRST", kWriteData | kStart | kReth},
    {Opcode::kUcWriteMiddle, "UC_WRITE_MIDDLE", kWriteData | kMiddle},
    {Opcode::kUcWriteLast, "UC_WRITE_LAST", kWriteData | kEnd},
    {Opcode::kUcWriteLastImm, "UC_WRITE_LAST_IMM", kWriteData | kEnd | kImmDt},
    {Opcode::kUcWriteOnly, "UC_WRITE_ONLY", kWriteData | kOnly | kReth},
    {Opcode::kUcWriteOnlyImm, "UC_WRITE_ONLY_IMM", kWriteData | kOnly | kReth | kImmDt},

    {Opcode::kUdSendOnly, "UD_SEND_ONLY", kSendData | kOnly | kDeth},
    {Opcode::kUdSendOnlyImm, "UD_SEND_ONLY_IMM", kSendData | kOnly | kDeth | kImmDt},

    {Opcode::kCnp, "CNP", kOnly | kCnpReserved},

    {Opcode::kXrcSendFirst, "XRC_SEND_FIRST", kSendData | kStart | kXrcEth},
    {Opcode::kXrcSendMiddle, "XRC_SEND_MIDDLE", kSendData | kMiddle | kXrcEth},
    {Opcode::kXrcSendLast, "XRC_SEND_LAST", kSendData | kEnd | kXrcEth},
    {Opcode::kXrcSendLastImm, "XRC_SEND_LAST_IMM", kSendData | kEnd | kXrcEth | kImmDt},
    {Opcode::kXrcSendOnly, "XRC_SEND_ONLY", kSendData | kOnly | kXrcEth},
    {Opcode::kXrcSendOnlyImm, "XRC_SEND_ONLY_IMM", kSendData | kOnly | kXrcEth | kImmDt},
    {Opcode::kXrcWriteFirst, "XRC_WRITE_FIRST", kWriteData | kStart | kXrcEth | kReth},
    {Opcode::kXrcWriteMiddle, "XRC_WRITE_MIDDLE", kWriteData | kMiddle | kXrcEth},
    {Opcode::kXrcWriteLast, "XRC_WRITE_LAST", kWriteData | kEnd | kXrcEth},
    {Opcode::kXrcWriteLastImm, "XRC_WRITE_LAST_IMM", kWriteData | kEnd | kXrcEth | kImmDt},
    {Opcode::kXrcWriteOnly, "XRC_WRITE_ONLY", kWriteData | kOnly | kXrcEth | kReth},
    {Opcode::kXrcWriteOnlyImm, "XRC_WRITE_ONLY_IMM", kWriteData | kOnly | kXrcEth | kReth | kImmDt},
    {Opcode::kXrcReadRequest, "XRC_READ_REQ", kRequest | kRead | kOnly | kXrcEth | kReth},
    {Opcode::kXrcReadResponseFirst, "XRC_READ_RESP_FIRST", kReadData | kStart | kAeth},
    {Opcode::kXrcReadResponseMiddle, "XRC_READ_RESP_MIDDLE", kReadData | kMiddle},
    {Opcode::kXrcReadResponseLast, "XRC_READ_RESP_LAST", kReadData | kEnd | kAeth},
    {Opcode::kXrcReadResponseOnly, "XRC_READ_RESP_ONLY", kReadData | kOnly | kAeth},
    {Opcode::kXrcAck, "XRC_ACK", kResponse | kOnly | kAeth},
    {Opcode::kXrcAtomicAck, "XRC_ATOMIC_ACK", kResponse | kAtomic | kOnly | kAeth | kAtomicAckEth},
    {Opcode::kXrcCompareSwap, "XRC_CMP_SWAP", kAtomicCall | kXrcEth},
    {Opcode::kXrcFetchAdd, "XRC_FETCH_ADD", kAtomicCall | kXrcEth},
    {Opcode::kXrcSendLastInvalidate, "XRC_SEND_LAST_INV", kSendData | kEnd | kXrcEth | kIeth},
    {Opcode::kXrcSendOnlyInvalidate, "XRC_SEND_ONLY_INV", kSendData | kOnly | kXrcEth | kIeth},
};

/// Returns the transport, which the top three bits of an opcode name.
constexpr Transport transport_of(Opcode o) {
  switch (raw(o) >> 5) {
    case 0:
      return Transport::kRc;
    case 1:
      return Transport::kUc;
    case 3:
      return Transport::kUd;
    case 4:
      return Transport::kCnp;
    case 5:
      return Transport::kXrc;
    default:
      return Transport::kNone;
  }
}

constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  std::array<OpcodeInfo, 256> table{};
  for (const OpcodeRow& row : kOpcodeRows)
    table[raw(row.opcode)] = {row.name, row.mask, transport_of(row.opcode),
                              static_cast<std::uint8_t>(header_bytes(row.mask))};
  return table;
}

}  // namespace detail

inline constexpr std::array<OpcodeInfo, 256> kOpcodeTable = detail::make_opcode_table();

/// Returns the row of any value; check is_known().
constexpr const OpcodeInfo& opcode_info(std::uint8_t opcode) { return kOpcodeTable[opcode]; }
constexpr const OpcodeInfo& opcode_info(Opcode opcode) { return kOpcodeTable[raw(opcode)]; }

}  // namespace softhca::wire
