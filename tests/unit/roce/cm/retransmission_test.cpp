// SPDX-License-Identifier: Apache-2.0

// A kept message and its retries.
#include "daemon/roce/cm/retransmission.hpp"

#include <gtest/gtest.h>

namespace softhca::management::cm {
namespace {

wire::Mad message() { return wire::encode_cm(wire::CmRtu{1, 2, {}}, 3); }

TEST(Retransmission, KeepsAMessageUnchanged) {
  Retransmission kept;
  EXPECT_FALSE(kept.has_message());
  kept.keep(message());
  ASSERT_TRUE(kept.has_message());
  EXPECT_EQ(kept.message(), message());
  EXPECT_TRUE(kept.is(wire::CmAttribute::kRtu));
  EXPECT_FALSE(kept.is(wire::CmAttribute::kRej));
  kept.forget();
  EXPECT_FALSE(kept.has_message());
  EXPECT_FALSE(kept.is(wire::CmAttribute::kRtu));
}

TEST(Retransmission, GoesAgainSoOftenAndAnewForAnotherMessage) {
  Retransmission kept;
  kept.set_retries(2);
  EXPECT_FALSE(kept.retry()) << "nothing was kept yet";
  kept.keep(message());
  EXPECT_TRUE(kept.retry());
  EXPECT_TRUE(kept.retry());
  EXPECT_FALSE(kept.retry());
  kept.keep(message());
  EXPECT_TRUE(kept.retry());
}

}  // namespace
}  // namespace softhca::management::cm
