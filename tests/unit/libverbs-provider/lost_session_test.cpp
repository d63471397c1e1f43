// SPDX-License-Identifier: Apache-2.0

// What is left of a session: when the daemon goes, and in a forked child.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class LostSession : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    cq_ = make_cq(4);
    qp_ = make_qp(cq_);
    move(qp_, IBV_QPS_RTS);
    chain_ = send_chain(1, 7);
  }
  void TearDown() override {
    if (qp_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    }
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    }
    DeviceTest::TearDown();
  }

  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::vector<ibv_send_wr> chain_;
  ibv_send_wr* bad_ = nullptr;
};

TEST_F(LostSession, DaemonGoneIsAnErrorAndNoHang) {
  ASSERT_EQ(ibv_post_send(qp_, chain_.data(), &bad_), 0);
  complete(cq_, qp_, 0);
  daemon().hang_up();
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);  // what it left is still there
  EXPECT_EQ(wc.wr_id, 7u);
  int polled = 0;
  while (polled == 0) polled = ibv_poll_cq(cq_, 1, &wc);
  EXPECT_LT(polled, 0);
  EXPECT_EQ(ibv_post_send(qp_, chain_.data(), &bad_), EIO);
  EXPECT_EQ(bad_, chain_.data());
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp_, &receive, &bad), EIO);
  errno = 0;
  EXPECT_EQ(ibv_alloc_pd(context_), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(ibv_req_notify_cq(cq_, 0), EIO);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context_, 1, &port), EIO);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(context_, &event), -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(LostSession, ControlCallNoticesToo) {
  daemon().hang_up();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(qp_, &attr, IBV_QP_STATE), EIO);
  EXPECT_EQ(ibv_post_send(qp_, chain_.data(), &bad_), EIO);
}

TEST_F(LostSession, FullDoorbellRingOfADeadDaemonIsNotWaitedForForever) {
  session().header().doorbell_producer.store(abi::kDoorbellEntries);
  auto chain = send_chain(5, 0);
  daemon().hang_up();
  EXPECT_EQ(ibv_post_send(qp_, chain.data(), &bad_), EIO);
}

int run_child(ibv_context* context, ibv_pd* pd, ibv_cq* cq, ibv_qp* qp, ibv_send_wr* wr) {
  ibv_send_wr* bad = nullptr;
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  ibv_wc wc;
  if (ibv_post_send(qp, wr, &bad) != EIO) return 1;
  if (ibv_post_recv(qp, &receive, &bad_receive) != EIO) return 2;
  if (ibv_poll_cq(cq, 1, &wc) >= 0) return 3;
  if (ibv_req_notify_cq(cq, 0) != EIO) return 4;
  if (ibv_alloc_pd(context) != nullptr) return 5;
  if (ibv_resize_cq(cq, 8) != EIO) return 6;
  if (ibv_destroy_qp(qp) != 0) return 7;
  if (ibv_destroy_cq(cq) != 0) return 8;
  if (ibv_dealloc_pd(pd) != 0) return 9;
  if (ibv_close_device(context) != 0) return 10;
  return 0;
}

TEST_F(LostSession, ForkedChildLeavesTheParentsAlone) {
  ASSERT_EQ(ibv_post_send(qp_, chain_.data(), &bad_), 0);
  complete(cq_, qp_, 0);
  const std::uint64_t active = session().header().active.load();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(run_child(context_, pd_, cq_, qp_, chain_.data()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);

  EXPECT_EQ(session().header().active.load(), active);
  EXPECT_EQ(daemon().count(abi::Operation::kDestroyQp), 0u);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(ibv_post_send(qp_, chain_.data(), &bad_), 0);
}

TEST_F(LostSession, ForkedChildDoesNotKeepTheConnectionOpen) {
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  ibv_context* other = world_->open();
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(daemon().session_count(), 2u);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char byte;
    ::close(hold[1]);
    ::_exit(::read(hold[0], &byte, 1) == 0 ? 0 : 1);
  }
  EXPECT_EQ(ibv_close_device(other), 0);
  while (daemon().session_count() != 1) std::this_thread::yield();
  ::close(hold[0]);
  ::close(hold[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace softhca::provider::test
