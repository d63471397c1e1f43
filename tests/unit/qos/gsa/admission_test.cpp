// SPDX-License-Identifier: Apache-2.0

// Which datagram may have a buffer, by the figures alone.
#include "daemon/qos/gsa/receive_admission.hpp"

#include <gtest/gtest.h>

namespace softhca::management::gsa {
namespace {

constexpr Time kNow{std::chrono::seconds(10)};

struct Decision : testing::Test {
  Decision() {
    client.share = client.granted = 16;
    client.several_until = kNow + std::chrono::seconds(1);
    source.established = true;
  }
  Grant decide() const { return grant(client, source, limits, spare, kNow); }
  Discard cause() const { return cause_of_refusal(client, source, limits, spare); }

  Client client;
  Source source;
  SourceLimits limits;
  SpareBuffers spare;
};

TEST_F(Decision, ASourceBesideOthersMayHoldItsPartOfTheShare) {
  client.own = source.own = 7;
  EXPECT_EQ(decide(), Grant::kOwn);
  client.own = source.own = 8;
  EXPECT_EQ(decide(), Grant::kRefused);
  EXPECT_EQ(cause(), Discard::kSourceOverQuota);
}

TEST_F(Decision, ASourceThatIsAloneLeavesTheFirstDatagramsOfOthers) {
  client.several_until = kNow;
  client.own = source.own = 13;
  EXPECT_EQ(decide(), Grant::kOwn);
  client.own = source.own = 14;
  EXPECT_EQ(decide(), Grant::kRefused);
}

TEST_F(Decision, NewSourcesTogetherHaveOnePart) {
  source.established = false;
  client.own = client.own_of_new = 8;
  EXPECT_EQ(decide(), Grant::kRefused);
  EXPECT_EQ(cause(), Discard::kNewSourcesOver);
  source.established = true;
  EXPECT_EQ(decide(), Grant::kOwn);
}

TEST_F(Decision, AClientOverItsShareBorrowsAsMuchAsItLeaves) {
  client.own = 16;
  EXPECT_EQ(decide(), Grant::kRefused);
  EXPECT_EQ(cause(), Discard::kOverQuota);
  spare.left = 9;
  client.borrowed = 8;
  EXPECT_EQ(decide(), Grant::kBorrowed);
  client.borrowed = 9;
  EXPECT_EQ(decide(), Grant::kRefused);
}

TEST_F(Decision, AClientThatKeepsBuffersBorrowsNone) {
  client.own = 16;
  client.gives_back = GivesBack::kMaybe;
  spare.left = 100;
  EXPECT_EQ(decide(), Grant::kRefused);
  EXPECT_EQ(cause(), Discard::kOverQuota);
}

TEST_F(Decision, WhatIsPromisedAndNotGrantedYetIsExhausted) {
  client.granted = client.own = 4;
  EXPECT_EQ(decide(), Grant::kRefused);
  EXPECT_EQ(cause(), Discard::kExhausted);
}

TEST_F(Decision, SeveralSourcesAreRememberedForAWindow) {
  client.several_until = Time{};
  const Duration window = std::chrono::seconds(2);
  note_source(client, 1, window, kNow);
  note_source(client, 1, window, kNow);
  EXPECT_EQ(client.several_until, Time{}) << "one source is alone";
  note_source(client, 2, window, kNow);
  EXPECT_EQ(client.several_until, kNow + window);
}

TEST_F(Decision, RatesCountForTheSourceAndForAllNewOnes) {
  EXPECT_EQ(check_rates(client, source, kNow), Discard::kNone);
  source.rate.set({.per_second = 1, .burst = 1}, kNow);
  source.rate.charge(1, kNow);
  EXPECT_EQ(check_rates(client, source, kNow), Discard::kSourceOverRate);
  EXPECT_TRUE(is_busy(client, source, kNow));
  Source other;
  client.new_rate.set({.per_second = 1, .burst = 1}, kNow);
  client.new_rate.charge(1, kNow);
  EXPECT_EQ(check_rates(client, other, kNow), Discard::kNewSourcesOver);
  other.established = true;
  EXPECT_EQ(check_rates(client, other, kNow), Discard::kNone);
  EXPECT_FALSE(is_busy(client, other, kNow));
}

}  // namespace
}  // namespace softhca::management::gsa
