// SPDX-License-Identifier: Apache-2.0

// What completes into a queue that has overflowed, and what is posted by session memory that has
// failed, without an engine.
#include "daemon/engine/receive/failed_sessions.hpp"

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/qp_parts.hpp"

namespace softhca::engine {
namespace {

class FailedSessions : public QpParts {
 protected:
  ~FailedSessions() override {
    while (!pairs.empty()) remove(*pairs.back());  // before their completion queues
  }
  TestQp& make_user(TestCq& send, TestCq& receive) {
    TestQp& made = make_qp();
    made.qp.sq.cq = &send.cq;
    made.qp.rq.cq = &receive.cq;
    return made;
  }
  void overflow(TestCq& of) {
    shm::Completion completion;
    for (int i = 0; i < 3; ++i) completions.push(of.cq, completion, false);
    ASSERT_TRUE(of.cq.failed);
  }
  void fail_users() {
    while (fail_some(cpu, async_events, receives) != 0) {
    }
  }

  TestCq small{session, 2, 2, -1}, another{session, 2, 3, -1};
};

TEST_F(FailedSessions, EndsTheQueuePairsThatCompleteThere) {
  TestQp& sender = make_user(small, cq);
  TestQp& receiver = make_user(cq, small);
  TestQp& other = make_user(cq, cq);
  overflow(small);
  fail_users();
  EXPECT_TRUE(about_to_fail(sender));
  EXPECT_TRUE(about_to_fail(receiver));
  EXPECT_FALSE(about_to_fail(other));
  EXPECT_EQ(sender.qp.error.cause, QpFailure::kCompletionQueueOverflow);
}

TEST_F(FailedSessions, EndsTheSharedReceiveQueuesThatCompleteThere) {
  TestSrq& srq = make_srq(XrcDomainId(3));
  srq.srq.cq = &small.cq;
  TestSrq& other = make_srq(XrcDomainId(3));
  overflow(small);
  fail_users();
  EXPECT_TRUE(srq.srq.failed);
  EXPECT_FALSE(other.srq.failed);
}

TEST_F(FailedSessions, OneLookServesAllQueuesOfASession) {
  TestQp& a = make_user(small, cq);
  TestQp& b = make_user(another, cq);
  make_srq();
  overflow(small);
  overflow(another);
  EXPECT_EQ(cost_of([&] { fail_users(); }), (2 + 1) * kSweepCost);
  EXPECT_TRUE(about_to_fail(a));
  EXPECT_TRUE(about_to_fail(b));
}

TEST_F(FailedSessions, SessionWithManyQueuePairs_AFewAreLookedAtInEachStep) {
  std::vector<TestQp*> users;
  for (int i = 0; i < 50; ++i) users.push_back(&make_user(small, cq));
  overflow(small);
  const auto failing = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(users, [&](TestQp* user) { return about_to_fail(*user); }));
  };
  fail_some(cpu, async_events, receives);
  EXPECT_EQ(failing(), kFailedPerStep);
  remove(*users.back());  // not looked at yet
  users.pop_back();
  fail_users();
  EXPECT_EQ(failing(), users.size());
}

TEST_F(FailedSessions, SessionMemoryFails_QueuePairsThatSendFail) {
  TestQp& sender = make_user(cq, cq);
  TestQp& unused = make_user(cq, cq);
  sender.qp.state = QpState::kRts;
  unused.qp.state = QpState::kReset;
  session.failed = true;
  look_through(cpu, session);
  fail_users();
  EXPECT_TRUE(about_to_fail(sender));
  EXPECT_EQ(sender.qp.error.cause, QpFailure::kSessionMemory);
  EXPECT_FALSE(about_to_fail(unused));
}

TEST_F(FailedSessions, OverflowsAgainLater_LaterUsersFailToo) {
  make_user(small, cq);
  overflow(small);
  fail_users();
  EXPECT_TRUE(cpu.failing.empty());
  TestQp& late = make_user(another, cq);
  overflow(another);
  fail_users();
  EXPECT_TRUE(about_to_fail(late)) << "another is seen, too";
}

}  // namespace
}  // namespace softhca::engine
