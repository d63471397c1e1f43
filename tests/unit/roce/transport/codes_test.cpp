// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/codes.hpp"

#include <gtest/gtest.h>

namespace softhca::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(Codes, RnrTimers) {
  EXPECT_EQ(rnr_delay(0), microseconds(655360));
  EXPECT_EQ(rnr_delay(1), microseconds(10));
  EXPECT_EQ(rnr_delay(12), microseconds(640));
  EXPECT_EQ(rnr_delay(13), microseconds(960));
  EXPECT_EQ(rnr_delay(31), microseconds(491520));
  EXPECT_EQ(rnr_delay(0x20 | 12), microseconds(640));  // a syndrome as it stands
  for (std::uint8_t code = 2; code < 32; ++code) EXPECT_GT(rnr_delay(code), rnr_delay(code - 1));
}

TEST(Codes, AnRnrTimerIsLongEnough) {
  EXPECT_EQ(rnr_timer(nanoseconds(1)), 1);
  EXPECT_EQ(rnr_timer(microseconds(640)), 12);
  EXPECT_EQ(rnr_timer(microseconds(641)), 13);
  EXPECT_EQ(rnr_timer(microseconds(491521)), 0);
  EXPECT_EQ(rnr_timer(std::chrono::seconds(5)), 0) << "there is no longer one";
  for (Duration delay = microseconds(1); delay < kLongestRnrDelay; delay += delay / 7) {
    ASSERT_GE(rnr_delay(rnr_timer(delay)), delay);
    ASSERT_LE(rnr_delay(rnr_timer(delay)), std::max<Duration>(microseconds(10), 2 * delay));
  }
}

TEST(Codes, AckTimeouts) {
  EXPECT_EQ(ack_timeout(0), nanoseconds(0));
  EXPECT_EQ(ack_timeout(1), nanoseconds(8192));
  EXPECT_EQ(ack_timeout(14), nanoseconds(4096LL << 14));
  EXPECT_EQ(ack_timeout(31), nanoseconds(4096LL << 31));
}

TEST(Codes, CreditsAreNeverOverstated) {
  for (std::uint32_t n = 0; n < 40000; ++n) {
    const std::uint8_t code = encode_credits(n);
    ASSERT_LT(code, 0x1f);
    ASSERT_LE(decode_credits(code), n);
    if (code < 30) {
      ASSERT_GT(decode_credits(static_cast<std::uint8_t>(code + 1)), n);
    }
  }
  EXPECT_EQ(decode_credits(encode_credits(0xffffffff)), 32768u);
}

TEST(Codes, NaksAndVerdictsAreInverse) {
  for (const Verdict v :
       {Verdict::kRemoteInvalidRequest, Verdict::kRemoteAccess, Verdict::kRemoteOperation})
    EXPECT_EQ(nak_verdict(nak_syndrome(v)), v);
  EXPECT_EQ(nak_syndrome(Verdict::kRemoteInvalidRequest), 0x61);
  EXPECT_EQ(nak_syndrome(Verdict::kRemoteAccess), 0x62);
  EXPECT_EQ(nak_syndrome(Verdict::kRemoteOperation), 0x63);
  EXPECT_EQ(nak_verdict(0x64), Verdict::kBadResponse);
}

}  // namespace
}  // namespace softhca::transport
