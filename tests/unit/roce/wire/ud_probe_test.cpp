// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/ud_probe.hpp"

#include <gtest/gtest.h>

namespace softhca::wire {
namespace {

TEST(DatagramProbe, QuestionsAndAnswersComeAsTheyWereSent) {
  const Mad question = encode(DatagramQuestion{.id = 0x0102030405060708, .mark = 0xa0});
  const auto asked = decode_datagram_question(question);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->id, 0x0102030405060708u);
  EXPECT_EQ(asked->mark, 0xa0);
  EXPECT_FALSE(decode_datagram_answer(question));

  const Mad answer = encode(DatagramAnswer{.id = 7,
                                           .mark = 0x20,
                                           .counts = true,
                                           .since = 0xdeadbeef,
                                           .packets = 1ull << 40,
                                           .bytes = 9});
  const auto told = decode_datagram_answer(answer);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->id, 7u);
  EXPECT_EQ(told->mark, 0x20);
  EXPECT_TRUE(told->counts);
  EXPECT_EQ(told->since, 0xdeadbeefu);
  EXPECT_EQ(told->packets, 1ull << 40);
  EXPECT_EQ(told->bytes, 9u);
  EXPECT_FALSE(decode_datagram_question(answer));
}

TEST(DatagramProbe, AnAnswerWithAStatusCountsNothing) {
  const auto busy = decode_datagram_answer(encode(DatagramAnswer{.id = 7, .packets = 5}));
  ASSERT_TRUE(busy);
  EXPECT_FALSE(busy->counts);
  EXPECT_EQ(busy->packets, 0u);
}

/// Decoding refuses a MAD of another class, version, method, attribute or length.
TEST(DatagramProbe, OthersAreNone) {
  const Mad question = encode(DatagramQuestion{.id = 7});
  for (const std::size_t at : {0u, 1u, 3u, 16u, 17u}) {
    Mad other = question;
    other[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_datagram_question(other)) << at;
  }
  for (const std::size_t length : {0u, 1u, 24u, 255u})
    EXPECT_FALSE(decode_datagram_question(std::span(question).first(length)));
}

}  // namespace
}  // namespace softhca::wire
