// What completes into a queue that has overflowed, without an engine.
#include "daemon/engine/cq_overflow.hpp"

#include "daemon/engine/costs.hpp"
#include "tests/unit/engine/qp_parts.hpp"

namespace softhca::engine {
namespace {

class CqOverflow : public QpParts {
 protected:
  ~CqOverflow() override {
    while (!pairs.empty()) remove(*pairs.back());  // before their completion queues
  }
  TestQp& make_user(TestCq& send, TestCq& receive) {
    TestQp& made = make_qp();
    made.qp.sq.cq = &send.cq;
    made.qp.rq.cq = &receive.cq;
    return made;
  }
  void overflow(TestCq& of) {
    for (int i = 0; i < 3; ++i) completions.push(of.cq, {}, false);
    ASSERT_TRUE(of.cq.failed);
  }
  void fail_users() { fail_users_of_overflowed(completions, receives, cpu); }

  TestCq small{session, 2, 2, -1}, another{session, 2, 3, -1};
};

TEST_F(CqOverflow, EndsTheQueuePairsThatCompleteThere) {
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

TEST_F(CqOverflow, EndsTheSharedReceiveQueuesThatCompleteThere) {
  TestSrq& srq = make_srq(XrcDomainId(3));
  srq.srq.cq = &small.cq;
  TestSrq& other = make_srq(XrcDomainId(3));
  overflow(small);
  fail_users();
  EXPECT_TRUE(srq.srq.failed);
  EXPECT_FALSE(other.srq.failed);
}

TEST_F(CqOverflow, OneLookServesAllQueuesOfASession) {
  TestQp& a = make_user(small, cq);
  TestQp& b = make_user(another, cq);
  make_srq();
  overflow(small);
  overflow(another);
  EXPECT_EQ(cost_of([&] { fail_users(); }), (2 + 1) * kSweepCost);
  EXPECT_TRUE(about_to_fail(a));
  EXPECT_TRUE(about_to_fail(b));
}

TEST_F(CqOverflow, IsOverOnceItsUsersFail) {
  make_user(small, cq);
  overflow(small);
  fail_users();
  EXPECT_FALSE(completions.any_overflowed());
  EXPECT_FALSE(small.cq.users_go_on);
  EXPECT_FALSE(session.overflows);
  TestQp& late = make_user(another, cq);
  overflow(another);
  fail_users();
  EXPECT_TRUE(about_to_fail(late)) << "another is seen, too";
}

}  // namespace
}  // namespace softhca::engine
