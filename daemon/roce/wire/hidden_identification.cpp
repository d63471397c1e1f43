// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/hidden_identification.hpp"

#include "daemon/roce/wire/icrc.hpp"

namespace softhca::wire {
namespace {

// Polynomials modulo that of the CRC-32, reflected: the highest bit is the coefficient of 1.
constexpr std::uint32_t kPolynomial = 0xedb88320;
constexpr std::uint32_t kOne = std::uint32_t{1} << 31;

constexpr std::uint32_t times_x(std::uint32_t p) {
  return (p & 1) != 0 ? p >> 1 ^ kPolynomial : p >> 1;
}

constexpr std::uint32_t over_x(std::uint32_t p) {
  return (p & kOne) != 0 ? (p ^ kPolynomial) << 1 | 1 : p << 1;
}

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b))
    if ((a & kOne) != 0) product ^= b;
  return product;
}

/// x^-8 and its repeated squares: the factors that remove 1, 2, 4... bytes of zeros from a CRC.
constexpr auto kBack = [] {
  std::array<std::uint32_t, 17> powers{};
  powers[0] = kOne;
  for (int bit = 0; bit < 8; ++bit) powers[0] = over_x(powers[0]);
  for (std::size_t i = 1; i < powers.size(); ++i)
    powers[i] = multiply(powers[i - 1], powers[i - 1]);
  return powers;
}();

constexpr std::size_t kIdentification = 4;  // in the IP header
/// Trains of UDP sockets begin with identification 0 and have at most so many packets.
constexpr std::uint16_t kLongestTrain = 64;
/// Largest gap between packets of a sender that counts: it also counts packets to other hosts.
constexpr std::uint16_t kFarthest = 64;

}  // namespace

std::uint32_t HiddenIdentifications::factor_for(std::size_t bytes) {
  // Lengths are multiples of 4.
  Shift& shift = shifts_[bytes / 4 % shifts_.size()];
  if (shift.bytes == bytes) return shift.factor;
  shift = {bytes, kOne};
  for (std::size_t i = 0; i < kBack.size(); ++i)
    if ((bytes >> i & 1) != 0) shift.factor = multiply(shift.factor, kBack[i]);
  return shift.factor;
}

bool HiddenIdentifications::expect(const Gid& source, std::uint16_t identification) {
  const std::uint32_t address = source.ipv4();
  Sender& sender = senders_[address % senders_.size()];
  const auto ahead = static_cast<std::uint16_t>(identification - sender.last - 1);
  const bool counts = sender.address == address && ahead < kFarthest;
  sender = {address, identification};
  return counts || identification < kLongestTrain;
}

HiddenIdentifications::Soundness HiddenIdentifications::check(const ParsedFrame& frame) {
  const std::uint32_t difference = icrc_difference(frame);
  if (difference == 0) return Soundness::kSound;
  if (!frame.is_ipv4) return Soundness::kBroken;
  const std::size_t behind =
      frame.network.size() - kIdentification + frame.datagram.size() - kIcrcLength;
  // A CRC that starts at 0, over two bytes and zeros, gives these two bytes once the zeros are
  // removed.
  const std::uint32_t bytes = multiply(difference, factor_for(behind));
  if (bytes > 0xffff) return Soundness::kBroken;
  const auto wrong = static_cast<std::uint16_t>(bytes << 8 | bytes >> 8);
  return expect(frame.source, frame.identification ^ wrong) ? Soundness::kSound
                                                            : Soundness::kUnexpected;
}

}  // namespace softhca::wire
