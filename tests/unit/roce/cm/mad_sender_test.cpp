// SPDX-License-Identifier: Apache-2.0

// MADs that go out, and how many of them may answer no connection.
#include "tests/unit/roce/cm/parts.hpp"

namespace softhca::management::cm {
namespace {

using Sender = Parts;
const wire::Mad kMessage = wire::encode_cm(wire::CmDrep{1, 2, {}}, 3);

TEST_F(Sender, StatelessRepliesAreLimitedASecond) {
  local.limits.stateless_replies = 2;
  for (int n = 0; n < 5; ++n) sender.reply_stateless(world.path(), kMessage, now);
  EXPECT_EQ(world.mads.size(), 2u);
  EXPECT_EQ(counters.sent, 2u);
  EXPECT_EQ(counters.replies_over_limit, 3u);
  sender.send(world.path(), kMessage);
  EXPECT_EQ(world.mads.size(), 3u) << "those of connections are not limited";
  sender.reply_stateless(world.path(), kMessage, now + std::chrono::seconds(1));
  EXPECT_EQ(world.mads.size(), 4u);
}

TEST_F(Sender, ATransactionIdNamesItsConnection) {
  EXPECT_EQ(sender.draw_transaction_id(CommId(7)), 0x1001'00000007u);
}

}  // namespace
}  // namespace softhca::management::cm
