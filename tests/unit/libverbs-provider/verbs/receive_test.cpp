// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class Receive : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) cq_ = make_cq();
  }
  void TearDown() override {
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    }
    DeviceTest::TearDown();
  }
  ibv_srq* make_srq(std::uint32_t max_wr) {
    ibv_srq_init_attr init{};
    init.attr = {max_wr, 2, 0};
    ibv_srq* srq = ibv_create_srq(pd_, &init);
    EXPECT_NE(srq, nullptr);
    return srq;
  }
  static ibv_recv_wr receive(std::uint64_t wr_id) {
    ibv_recv_wr wr{};
    wr.wr_id = wr_id;
    return wr;
  }

  ibv_cq* cq_ = nullptr;
  ibv_recv_wr* bad_ = nullptr;
};

TEST_F(Receive, ElementsCarryTheirEntries) {
  ibv_qp* qp = make_qp(cq_);
  move(qp, IBV_QPS_INIT);
  ibv_sge entries[] = {{0x1000, 10, 1}, {0x2000, 20, 2}, {}};
  ibv_recv_wr second = receive(8);
  ibv_recv_wr first = receive(7);
  first.sg_list = entries;
  first.num_sge = 2;
  first.next = &second;
  ASSERT_EQ(ibv_post_recv(qp, &first, &bad_), 0);
  FakeReceiveQueue& queue = fake(qp).receive;
  EXPECT_EQ(queue.producer(), 2u);
  EXPECT_EQ(queue.element(0).num_sge, 2u);
  EXPECT_EQ(queue.element(0).index, 0u);
  EXPECT_EQ(queue.entry(0, 1).addr, 0x2000u);
  EXPECT_EQ(queue.entry(0, 1).lkey, 2u);
  EXPECT_EQ(queue.element(1).num_sge, 0u);

  first.num_sge = 3;  // max_recv_sge is 2
  EXPECT_EQ(ibv_post_recv(qp, &first, &bad_), EINVAL);
  EXPECT_EQ(bad_, &first);
  EXPECT_EQ(queue.producer(), 2u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Receive, FullQueueTakesMoreAfterItsCompletions) {
  ibv_qp* qp = make_qp(cq_);
  ibv_recv_wr wr = receive(0);
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad_), EINVAL);  // RESET
  move(qp, IBV_QPS_INIT);
  std::uint32_t posted = 0;
  std::uint32_t completed = 0;
  for (int lap = 0; lap < 5; ++lap) {
    for (;; ++posted) {
      wr.wr_id = 1000 + posted;
      const int error = ibv_post_recv(qp, &wr, &bad_);
      if (error == 0) continue;
      EXPECT_EQ(error, ENOMEM);
      EXPECT_EQ(bad_, &wr);
      break;
    }
    EXPECT_EQ(posted - completed, 8u);  // max_recv_wr
    for (int i = 0; i < 3; ++i, ++completed) {
      complete(cq_, qp, fake(qp).receive.element(completed).index, true);
      ibv_wc wc;
      ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
      EXPECT_EQ(wc.wr_id, 1000 + completed);
      EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    }
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Receive, PostsToAFailedQueuePairWakeTheEngine) {
  ibv_qp* qp = make_qp(cq_);
  move(qp, IBV_QPS_INIT);
  session().header().parked.store(1);
  ibv_recv_wr wr = receive(0);
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad_), 0);
  EXPECT_EQ(session().wakes(), 0u);
  complete(cq_, qp, 0, true, IBV_WC_WR_FLUSH_ERR);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad_), 0);
  EXPECT_EQ(session().wakes(), 1u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Receive, SharedQueueIsCreatedModifiedAndQueried) {
  ibv_srq_init_attr init{};
  init.attr = {10, 3, 4};
  ibv_srq* srq = ibv_create_srq(pd_, &init);
  ASSERT_NE(srq, nullptr);
  const auto request = daemon().last<abi::CreateSrqRequest>(abi::Operation::kCreateSrq);
  EXPECT_EQ(request.user_handle, reinterpret_cast<std::uintptr_t>(srq));
  EXPECT_EQ(request.max_wr, 10u);
  EXPECT_EQ(request.max_sge, 3u);
  EXPECT_EQ(request.limit, 4u);
  ibv_srq_attr attr{};
  attr.srq_limit = 6;
  ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(daemon().last<abi::ModifySrqRequest>(abi::Operation::kModifySrq).limit, 6u);
  ASSERT_EQ(ibv_query_srq(srq, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 5u);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Receive, SharedQueueCompletesInAnyOrder) {
  ibv_srq* srq = make_srq(3);
  ibv_qp* qp = make_qp(cq_, IBV_QPT_RC, srq);
  ibv_recv_wr wr = receive(0);
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad_), EINVAL);  // it has no queue of its own
  std::vector<std::uint32_t> slot_of;
  for (std::uint64_t id = 0; id < 3; ++id) {
    wr = receive(id);
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), 0);
    slot_of.push_back(fake(srq).queue.element(static_cast<std::uint32_t>(id)).index);
  }
  wr = receive(9);
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), ENOMEM);

  complete(cq_, qp, slot_of[2], true);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 2u);
  ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), 0);
  EXPECT_EQ(fake(srq).queue.producer(), 4u);
  EXPECT_EQ(fake(srq).queue.element(3).index, slot_of[2]);
  complete(cq_, qp, slot_of[0], true);
  complete(cq_, qp, slot_of[2], true);
  complete(cq_, qp, slot_of[1], true, IBV_WC_WR_FLUSH_ERR);
  ibv_wc more[4];
  ASSERT_EQ(ibv_poll_cq(cq_, 4, more), 3);
  EXPECT_EQ(more[0].wr_id, 0u);
  EXPECT_EQ(more[1].wr_id, 9u);
  EXPECT_EQ(more[2].wr_id, 1u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), 0);
  }
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), ENOMEM);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Receive, ResizedSharedQueueKeepsWhatIsPosted) {
  ibv_srq* srq = make_srq(4);
  ibv_qp* qp = make_qp(cq_, IBV_QPT_RC, srq);
  std::uint64_t next = 0;
  const auto post = [&] {
    ibv_recv_wr wr = receive(next);
    const int error = ibv_post_srq_recv(srq, &wr, &bad_);
    next += error == 0 ? 1 : 0;
    return error;
  };
  const auto resize = [&](std::uint32_t max_wr) {
    ibv_srq_attr attr{};
    attr.max_wr = max_wr;
    return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
  };
  std::uint64_t due = 0;
  const auto take = [&] {
    FakeSrq& fake_srq = fake(srq);
    complete(cq_, qp, fake_srq.queue.element(fake_srq.taken++).index, true);
  };
  const auto poll = [&] {
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
    EXPECT_EQ(wc.wr_id, due++);
  };
  while (post() == 0) {
  }
  EXPECT_EQ(next, 4u);
  ASSERT_EQ(resize(10), 0);
  while (post() == 0) {
  }
  EXPECT_EQ(next, 10u);
  for (int i = 0; i < 7; ++i) take();
  for (int i = 0; i < 6; ++i) poll();
  EXPECT_EQ(resize(3), EINVAL) << "one is received and not polled, three wait";
  ASSERT_EQ(resize(4), 0);
  EXPECT_EQ(post(), ENOMEM);
  poll();  // its slot is beyond the new size, perhaps
  EXPECT_EQ(post(), 0);
  EXPECT_EQ(post(), ENOMEM);
  ASSERT_EQ(resize(64), 0);
  for (int lap = 0; lap < 3; ++lap) {
    while (post() == 0) {
    }
    EXPECT_EQ(next - due, 64u);
    for (int n = 0; n < 16; ++n) take();
    for (int n = 0; n < 16; ++n) poll();
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Receive, SharedQueueIsResizedWithinTheLimits) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
  ibv_srq* srq = make_srq(4);
  ibv_srq_attr attr{};
  const auto modify = [&](std::uint32_t max_wr, int mask) {
    attr.max_wr = max_wr;
    return ibv_modify_srq(srq, &attr, mask);
  };
  EXPECT_EQ(modify(0, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modify(static_cast<std::uint32_t>(device.max_srq_wr) + 1, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modify(~0u, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modify(8, 1 << 5), EINVAL);
  attr.srq_limit = 7;
  ASSERT_EQ(modify(8, IBV_SRQ_MAX_WR), 0);
  auto request = daemon().last<abi::ResizeSrqRequest>(abi::Operation::kResizeSrq);
  EXPECT_EQ(request.handle, srq->handle);
  EXPECT_EQ(request.max_wr, 8u);
  EXPECT_EQ(request.sets_limit, 0u);
  ASSERT_EQ(modify(9, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  request = daemon().last<abi::ResizeSrqRequest>(abi::Operation::kResizeSrq);
  EXPECT_EQ(request.max_wr, 9u);
  EXPECT_EQ(request.limit, 7u);
  EXPECT_EQ(request.sets_limit, 1u);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Receive, DestroyedQueuePairGivesItsSharedBuffersBack) {
  ibv_srq* srq = make_srq(2);
  ibv_qp* qp = make_qp(cq_, IBV_QPT_RC, srq);
  ibv_recv_wr wr = receive(0);
  ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), 0);
  ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), 0);
  complete(cq_, qp, fake(srq).queue.element(0).index, true);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad_), ENOMEM);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

}  // namespace
}  // namespace softhca::provider::test
