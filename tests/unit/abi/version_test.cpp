// SPDX-License-Identifier: Apache-2.0

#include "abi/version.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace softhca::abi {
namespace {

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
constexpr VersionRange kDaemon{4, 6};

TEST(Version, BothSidesSpeakSeveral_NewestCommonOneIsChosen) {
  EXPECT_EQ(choose_version(kDaemon, {3, 5}), 5u);
  EXPECT_EQ(choose_version(kDaemon, {4, 4}), 4u);
  EXPECT_EQ(choose_version(kDaemon, {6, 8}), 6u);
  EXPECT_EQ(choose_version(kDaemon, {1, kMost}), 6u);
  EXPECT_EQ(choose_version(kDaemon, {1, 4}), 4u);
}

TEST(Version, RangesDoNotMeet_NoneIsChosen) {
  EXPECT_EQ(choose_version(kDaemon, {7, 8}), 0u);
  EXPECT_EQ(choose_version(kDaemon, {1, 3}), 0u);
  EXPECT_EQ(choose_version(kDaemon, {kMost, kMost}), 0u);
}

TEST(Version, RangeIsInvalid_NoneIsChosen) {
  EXPECT_EQ(choose_version(kDaemon, {6, 4}), 0u);
  EXPECT_EQ(choose_version(kDaemon, {kMost, 1}), 0u);
  EXPECT_EQ(choose_version(kDaemon, {0, 0}), 0u);
  EXPECT_EQ(choose_version(kDaemon, {0, kMost}), 0u);
}

TEST(Version, PeerOfBeforeTheNegotiation_SpeaksOneVersion) {
  EXPECT_EQ(stated_range({4, 0}), (VersionRange{4, 4}));
  EXPECT_EQ(stated_range({4, 6}), kDaemon);
  EXPECT_EQ(answered_version({4, 6}, 0), 4u) << "it has accepted the oldest";
  EXPECT_EQ(refused_range({0, 0}), (VersionRange{4, 4}));
  EXPECT_EQ(refused_range({7, 8}), (VersionRange{7, 8}));
}

TEST(Version, AnswerOutsideTheStatedRange_IsRefused) {
  EXPECT_EQ(answered_version({4, 6}, 5), 5u);
  EXPECT_EQ(answered_version({4, 6}, 3), 0u);
  EXPECT_EQ(answered_version({4, 6}, 7), 0u);
}

std::string text(VersionRange daemon, VersionRange provider) {
  char why[kMismatchBytes];
  explain_mismatch(daemon, provider, why);
  return why;
}

TEST(Version, Mismatch_NamesBothRangesAndTheSideToUpgrade) {
  EXPECT_EQ(text({4, 6}, {7, 8}),
            "the provider speaks protocol version 7 to 8, the daemon 4 to 6; upgrade the daemon "
            "(package softhca)");
  EXPECT_EQ(text({5, 7}, {4, 4}),
            "the provider speaks protocol version 4, the daemon 5 to 7; upgrade the provider "
            "(package softhca-provider) where the program runs");
  EXPECT_EQ(text({kMost - 1, kMost}, {kMost - 3, kMost - 2}).back(), 's') << "the longest one fits";
}

TEST(Version, DaemonOfTheTable_ServesTheLastThreeVersions) {
  EXPECT_EQ(kSpokenVersions.newest, kAbiVersion);
  EXPECT_EQ(kSpokenVersions.newest - kSpokenVersions.oldest + 1,
            std::min(std::size(kProtocolVersions), kVersionsSpoken));
}

}  // namespace
}  // namespace softhca::abi
