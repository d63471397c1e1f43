// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/codes.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "daemon/roce/wire/headers.hpp"

namespace softhca::transport {
namespace {

using std::chrono::microseconds;

constexpr std::array<Duration, 32> kRnrDelays = {
    microseconds(655360), microseconds(10),     microseconds(20),     microseconds(30),
    microseconds(40),     microseconds(60),     microseconds(80),     microseconds(120),
    microseconds(160),    microseconds(240),    microseconds(320),    microseconds(480),
    microseconds(640),    microseconds(960),    microseconds(1280),   microseconds(1920),
    microseconds(2560),   microseconds(3840),   microseconds(5120),   microseconds(7680),
    microseconds(10240),  microseconds(15360),  microseconds(20480),  microseconds(30720),
    microseconds(40960),  microseconds(61440),  microseconds(81920),  microseconds(122880),
    microseconds(163840), microseconds(245760), microseconds(327680), microseconds(491520)};

constexpr std::array<std::uint32_t, 31> kCredits = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

}  // namespace

std::uint8_t nak_syndrome(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRemoteInvalidRequest:
      return wire::kSyndromeInvalidRequest;
    case Verdict::kRemoteAccess:
      return wire::kSyndromeRemoteAccess;
    default:
      assert(verdict == Verdict::kRemoteOperation);
      return wire::kSyndromeRemoteOperation;
  }
}

Verdict nak_verdict(std::uint8_t syndrome) {
  switch (syndrome) {
    case wire::kSyndromeInvalidRequest:
      return Verdict::kRemoteInvalidRequest;
    case wire::kSyndromeRemoteAccess:
      return Verdict::kRemoteAccess;
    case wire::kSyndromeRemoteOperation:
      return Verdict::kRemoteOperation;
    default:
      return Verdict::kBadResponse;
  }
}

Duration rnr_delay(std::uint8_t timer_code) { return kRnrDelays[timer_code & 0x1f]; }

std::uint8_t rnr_timer(Duration delay) {
  static_assert(kRnrDelays[0] == kLongestRnrDelay);
  // Code 0 is the longest; the others ascend.
  const auto enough = std::lower_bound(kRnrDelays.begin() + 1, kRnrDelays.end(), delay);
  return enough == kRnrDelays.end() ? 0 : static_cast<std::uint8_t>(enough - kRnrDelays.begin());
}

Duration ack_timeout(std::uint8_t code) {
  const unsigned t = code & 0x1f;
  return t == 0 ? Duration::zero() : Duration(std::int64_t{4096} << t);
}

std::uint8_t encode_credits(std::uint32_t receives) {
  const auto above = std::upper_bound(kCredits.begin(), kCredits.end(), receives);
  return static_cast<std::uint8_t>(above - kCredits.begin() - 1);
}

std::uint32_t decode_credits(std::uint8_t code) {
  assert(code < kCredits.size());
  return kCredits[code];
}

}  // namespace softhca::transport
