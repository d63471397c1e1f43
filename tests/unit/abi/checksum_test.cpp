// SPDX-License-Identifier: Apache-2.0

// Reference: RFC 1071 in 32-bit words, written down word by word.
#include "abi/checksum.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace softhca::abi {
namespace {

struct Command {
  CommandHeader header{};
  std::array<std::byte, kCommandPayloadBytes> payload{};

  std::uint32_t sum() const { return command_checksum(header, payload.data()); }
  bool matches() const { return checksum_matches(header, payload.data()); }
};

std::uint32_t naive(const Command& command) {
  std::array<std::uint8_t, kCommandBytes> bytes{};
  std::memcpy(bytes.data(), &command.header, sizeof command.header);
  std::memcpy(bytes.data() + sizeof command.header, command.payload.data(),
              command.header.payload_bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + i, 4);
    sum += word;
    if (sum > 0xffffffff) sum -= 0xffffffff;
  }
  return ~static_cast<std::uint32_t>(sum);
}

Command random_command(std::mt19937_64& random) {
  Command c;
  std::array<std::uint64_t, kCommandHeaderBytes / 8> words;
  for (auto& word : words) word = random();
  std::memcpy(&c.header, words.data(), sizeof c.header);
  c.header.payload_bytes = static_cast<std::uint16_t>(random() % (kCommandPayloadBytes + 1));
  c.header.checksum = 0;
  for (auto& byte : c.payload) byte = static_cast<std::byte>(random());
  return c;
}

TEST(Checksum, AgreesWithTheDefinition) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const Command c = random_command(random);
    EXPECT_EQ(c.sum(), naive(c));
  }
}

TEST(Checksum, OnlyTheAnnouncedPayloadCounts) {
  std::mt19937_64 random(2);
  Command c = random_command(random);
  c.header.payload_bytes = 13;
  const std::uint32_t before = c.sum();
  c.payload[13] ^= std::byte{0xff};
  EXPECT_EQ(c.sum(), before);
  c.payload[12] ^= std::byte{0x01};
  EXPECT_NE(c.sum(), before);
}

TEST(Checksum, EverySingleBitIsNoticed) {
  std::mt19937_64 random(3);
  Command c = random_command(random);
  c.header.payload_bytes = 40;
  c.header.checksum = c.sum();
  ASSERT_TRUE(c.matches());
  auto* bytes = reinterpret_cast<std::byte*>(&c.header);
  for (std::size_t bit = 0; bit < kCommandHeaderBytes * 8; ++bit) {
    // A length beyond the payload is refused before the checksum is computed.
    if (bit / 8 == offsetof(CommandHeader, payload_bytes) + 1) continue;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(c.matches()) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
  for (std::size_t bit = 0; bit < 40 * 8; ++bit) {
    c.payload[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(c.matches()) << "payload bit " << bit;
    c.payload[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}

TEST(Checksum, ZeroIsWrittenAsTheOtherZero) {
  Command c;
  c.header.remote_addr = 0xffffffff;  // the sum is all ones, its complement zero
  EXPECT_EQ(c.sum(), 0xffffffff);
  c.header.checksum = c.sum();
  EXPECT_TRUE(c.matches());
}

TEST(Checksum, MayBeLeftOut) {
  std::mt19937_64 random(4);
  EXPECT_TRUE(random_command(random).matches());
}

}  // namespace
}  // namespace softhca::abi
