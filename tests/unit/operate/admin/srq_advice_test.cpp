// SPDX-License-Identifier: Apache-2.0

// What an operator is told of a shared receive queue, in words.
#include "daemon/operate/admin/srq_advice.hpp"

#include <gmock/gmock.h>

namespace softhca::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SrqFigures figures() {
  return {.queue_pairs = 9,
          .size = 4096,
          .most_available = 4096,
          .peak = 3100,
          .draws = 100000,
          .users = {}};
}

TEST(SrqAdvice, NothingBeforeTheFirstMessage) { EXPECT_THAT(advice_on({.size = 16}), IsEmpty()); }

TEST(SrqAdvice, ASizeThatIsRightOrTooLarge) {
  EXPECT_THAT(advice_on(figures()),
              ElementsAre("peak 3100 of 4096, never empty: 3488 would have been enough"));
  SrqFigures full = figures();
  full.peak = 4000;
  EXPECT_THAT(advice_on(full), ElementsAre("peak 4000 of 4096, never empty: its size is right"));
}

TEST(SrqAdvice, ASizeThatIsTooSmall) {
  SrqFigures empty = figures();
  empty.peak = 4096;
  empty.empty = 200;
  empty.most_waiting = 256;
  EXPECT_THAT(advice_on(empty),
              ElementsAre(testing::AllOf(HasSubstr("peak 4096 of 4096, 0.2 % of attempts found it "
                                                   "empty, up to 256 queue pairs at once: 4352 "),
                                         HasSubstr("would have been enough"))));
  empty.most_available = 100;
  EXPECT_THAT(advice_on(empty)[0], HasSubstr("posts no more than 100 receives"));
}

TEST(SrqAdvice, WhoIsOverASoftLimitAndWhichSettingToChange) {
  SrqFigures it = figures();
  it.users = {{.qpn = Qpn(7), .peer = "10.0.0.9", .held = 30, .limit = 10, .soft = true}};
  EXPECT_THAT(advice_on(it)[1],
              testing::AllOf(HasSubstr("queue pair 7 (peer 10.0.0.9) holds 30 receives, 20 over"),
                             HasSubstr("set srq.limit of the tenant to 34"),
                             HasSubstr("on_exceed = \"quarantine\"")));
  it.users[0].rule = 2;
  EXPECT_THAT(advice_on(it)[1], HasSubstr("limit of srq_rule 2 to 34"));
  it.users[0].own_limit = true;
  EXPECT_THAT(advice_on(it)[1], HasSubstr("softhcactl qp set 7 srq_limit to 34"));
  it.users[0].held = 10;
  EXPECT_EQ(advice_on(it).size(), 1u);
}

TEST(SrqAdvice, Refusals) {
  SrqFigures it = figures();
  it.refused = 100000;
  it.users = {{.qpn = Qpn(7), .held = 9, .limit = 10, .quarantined = true}};
  EXPECT_THAT(advice_on(it), ElementsAre(HasSubstr("peak"), HasSubstr("50 % of attempts were"),
                                         HasSubstr("queue pair 7 is in quarantine with 9")));
}

TEST(SrqAdvice, ARunawayWithoutALimit) {
  SrqFigures it = figures();
  it.lately = 1000;
  it.users = {{.qpn = Qpn(7), .draws = 900}, {.qpn = Qpn(8)}};
  EXPECT_EQ(advice_on(it).size(), 1u) << "no queue pair is short of receives";
  it.peak = 4000;
  it.queue_pairs = 1;
  EXPECT_EQ(advice_on(it).size(), 1u) << "it is the only queue pair";
  it.queue_pairs = 2;
  EXPECT_THAT(advice_on(it)[1], testing::AllOf(HasSubstr("queue pair 7 drew 90 %"),
                                               HasSubstr("qp set 7 srq_limit=1024")));
}

}  // namespace
}  // namespace softhca::control
