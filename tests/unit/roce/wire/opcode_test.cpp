// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/opcode.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace softhca::wire {
namespace {

int count_bits(OpcodeMask m, std::initializer_list<OpcodeMask> bits) {
  int n = 0;
  for (const OpcodeMask b : bits) n += m.has_any(b);
  return n;
}

bool is_assigned(int v) {
  return (v <= 0x17 && v != 0x15) || v == 0x1c || v == 0x1d || (v >= 0x20 && v <= 0x2b) ||
         v == 0x64 || v == 0x65 || v == 0x81 || (v >= 0xa0 && v <= 0xb7 && v != 0xb5);
}

TEST(OpcodeTable, KnowsTheAssignedValuesAndNoOther) {
  int known = 0;
  for (int v = 0; v < 256; ++v) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(v));
    EXPECT_EQ(info.is_known(), is_assigned(v)) << v;
    known += info.is_known();
    if (info.is_known()) continue;
    EXPECT_EQ(info.header_length, 0) << v;
    EXPECT_EQ(info.mask, OpcodeMask()) << v;
    EXPECT_STREQ(info.name, "UNKNOWN");
  }
  EXPECT_EQ(known, 25 + 12 + 2 + 1 + 23);
}

TEST(OpcodeTable, NamesAreUniqueAndBeginWithTheTransport) {
  std::set<std::string> names;
  for (int v = 0; v < 256; ++v) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(v));
    if (!info.is_known()) continue;
    const std::string name = info.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    const std::string prefix = name.substr(0, name.find('_'));
    switch (info.transport) {
      case Transport::kRc:
        EXPECT_EQ(prefix, "RC");
        break;
      case Transport::kUc:
        EXPECT_EQ(prefix, "UC");
        break;
      case Transport::kUd:
        EXPECT_EQ(prefix, "UD");
        break;
      case Transport::kXrc:
        EXPECT_EQ(prefix, "XRC");
        break;
      case Transport::kCnp:
        EXPECT_EQ(prefix, "CNP");
        break;
      case Transport::kNone:
        ADD_FAILURE() << name;
    }
  }
}

TEST(OpcodeTable, PropertiesFitTogether) {
  for (int v = 0; v < 256; ++v) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(v));
    if (!info.is_known() || info.transport == Transport::kCnp) continue;
    SCOPED_TRACE(info.name);
    const OpcodeMask m = info.mask;
    EXPECT_EQ(count_bits(m, {kRequest, kResponse}), 1);
    EXPECT_NE(m.has_any(kMiddle), m.has_any(kStart | kEnd));
    EXPECT_LE(count_bits(m, {kSend, kWrite, kRead, kAtomic, kFlush, kAtomicWrite}), 1);
    EXPECT_LE(count_bits(m, {kImmDt, kIeth}), 1);
    if (m.has_any(kImmDt | kIeth)) {
      EXPECT_TRUE(m.has_any(kEnd));
    }
    EXPECT_EQ(m.has_any(kDeth), info.transport == Transport::kUd);
    EXPECT_EQ(m.has_any(kXrcEth), info.transport == Transport::kXrc && m.has_any(kRequest));
    EXPECT_EQ(m.has_any(kAtomicEth), m.has_all(kRequest | kAtomic));
    EXPECT_EQ(m.has_any(kAtomicAckEth), m.has_all(kResponse | kAtomic));
    EXPECT_EQ(m.has_any(kReth), (m.has_any(kWrite) && m.has_any(kStart)) ||
                                    m.has_all(kRequest | kRead) ||
                                    m.has_any(kAtomicWrite | kFlush));
    EXPECT_EQ(m.has_any(kFeth), m.has_any(kFlush));
    EXPECT_EQ(m.has_any(kAeth), m.has_any(kResponse) && !m.has_any(kMiddle));
    EXPECT_EQ(m.has_any(kPayload),
              m.has_any(kSend | kWrite | kAtomicWrite) || m.has_all(kResponse | kRead));
    EXPECT_LE(info.header_length, kMaxHeaderLength);
  }
}

TEST(OpcodeTable, HeaderLengths) {
  const struct {
    Opcode opcode;
    int length;
  } expected[] = {
      {Opcode::kRcSendOnly, 12},
      {Opcode::kRcSendLastImm, 16},
      {Opcode::kRcSendOnlyInvalidate, 16},
      {Opcode::kRcWriteFirst, 28},
      {Opcode::kRcWriteMiddle, 12},
      {Opcode::kRcFlush, 32},
      {Opcode::kRcWriteOnlyImm, 32},
      {Opcode::kRcReadRequest, 28},
      {Opcode::kRcReadResponseFirst, 16},
      {Opcode::kRcReadResponseMiddle, 12},
      {Opcode::kRcAck, 16},
      {Opcode::kRcAtomicAck, 24},
      {Opcode::kRcCompareSwap, 40},
      {Opcode::kUcWriteOnly, 28},
      {Opcode::kUdSendOnly, 20},
      {Opcode::kUdSendOnlyImm, 24},
      {Opcode::kCnp, 28},
      {Opcode::kXrcSendOnly, 16},
      {Opcode::kXrcWriteOnlyImm, 36},
      {Opcode::kXrcAck, 16},
      {Opcode::kXrcFetchAdd, 44},
  };
  for (const auto& e : expected)
    EXPECT_EQ(opcode_info(e.opcode).header_length, e.length) << opcode_info(e.opcode).name;
}

TEST(OpcodeTable, XrcAndUcFollowRc) {
  for (int v = 0; v <= 0x17; ++v) {
    const OpcodeInfo& rc = opcode_info(static_cast<std::uint8_t>(v));
    const OpcodeInfo& xrc = opcode_info(static_cast<std::uint8_t>(0xa0 + v));
    if (!rc.is_known()) continue;
    EXPECT_EQ(xrc.mask, rc.mask.has_any(kRequest) ? rc.mask | kXrcEth : rc.mask) << rc.name;
    if (v > 0x0b) continue;
    EXPECT_EQ(opcode_info(static_cast<std::uint8_t>(0x20 + v)).mask, rc.mask) << rc.name;
  }
}

}  // namespace
}  // namespace softhca::wire
