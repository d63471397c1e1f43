// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include "tests/emulated.hpp"
#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class Completion : public DeviceTest {
 protected:
  void post(ibv_qp* qp, std::uint64_t wr_id) {
    auto one = send_chain(1, wr_id);
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, one.data(), &bad), 0);
    session().release_vcbs(session().handed_over());
  }
};

TEST_F(Completion, QueueSizesAreChecked) {
  for (const int cqe : {0, -1, 4097}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context_, cqe, nullptr, nullptr, 0), nullptr) << cqe;
    EXPECT_EQ(errno, EINVAL);
  }
  for (const int vector : {-1, 2}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context_, 4, nullptr, nullptr, vector), nullptr) << vector;
    EXPECT_EQ(errno, EINVAL);
  }
  ibv_cq* cq = make_cq(5);
  EXPECT_EQ(cq->cqe, 8);
  daemon().fail_next(abi::Operation::kDestroyCq, EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Completion, EventsAreModerated) {
  ibv_cq* cq = make_cq(4);
  ibv_modify_cq_attr attr{IBV_CQ_ATTR_MODERATE, {12, 345}};
  ASSERT_EQ(ibv_modify_cq(cq, &attr), 0);
  const auto request = daemon().last<abi::ModifyCqRequest>(abi::Operation::kModifyCq);
  EXPECT_EQ(request.handle, cq->handle);
  EXPECT_EQ(request.count, 12);
  EXPECT_EQ(request.period, 345);
  daemon().fail_next(abi::Operation::kModifyCq, EINVAL);
  EXPECT_EQ(ibv_modify_cq(cq, &attr), EINVAL);
  attr.attr_mask = 0;
  EXPECT_EQ(ibv_modify_cq(cq, &attr), EINVAL);
  attr.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED;
  EXPECT_EQ(ibv_modify_cq(cq, &attr), EOPNOTSUPP);
  EXPECT_EQ(daemon().count(abi::Operation::kModifyCq), 2u);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Completion, AThreadThatPollsLeavesTheProcessorOfTheEngine) {
  cpu_set_t before, after, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  ibv_cq* cq = make_cq(4);
  /// Returns true if the thread has moved after a poll, while the engine is where it polls.
  const auto moves = [&] {
    for (int i = 0; i < 1000; ++i) {
      const int cpu = ::sched_getcpu();
      session().header().engine_cpu = static_cast<std::uint32_t>(cpu) + 1;
      ibv_wc wc;
      EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
      if (::sched_getcpu() != cpu) return true;
    }
    return false;
  };
  if (CPU_COUNT(&before) > 1) {
    EXPECT_TRUE(moves());
  }
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));

  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_FALSE(moves()) << "it may use no other";
  EXPECT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Completion, RingWrapsAround) {
  ibv_cq* cq = make_cq(4);
  ibv_qp* qp = make_qp(cq);
  move(qp, IBV_QPS_RTS);
  ibv_wc wc[8];
  std::uint32_t sequence = 0;
  for (const unsigned batch : {1u, 3u, 4u, 2u, 4u, 4u, 1u, 4u}) {
    EXPECT_EQ(ibv_poll_cq(cq, 8, wc), 0);
    for (unsigned i = 0; i < batch; ++i) {
      post(qp, 100 + sequence);
      complete(cq, qp, sequence++);
    }
    ASSERT_EQ(ibv_poll_cq(cq, 8, wc), static_cast<int>(batch));
    for (unsigned i = 0; i < batch; ++i) {
      EXPECT_EQ(wc[i].wr_id, 100 + sequence - batch + i);
    }
    EXPECT_EQ(fake(cq).header().consumer.load(), sequence);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Completion, FieldsAreTranslated) {
  ibv_cq* cq = make_cq(4);
  ibv_qp* qp = make_qp(cq, IBV_QPT_UD);
  move(qp, IBV_QPS_RTS);
  ibv_recv_wr wr{};
  wr.wr_id = 55;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  abi::CompletionElement element{};
  element.qpn = qp->qp_num;
  element.byte_len = 140;
  element.imm = 0x01020304;
  element.opcode = IBV_WC_RECV;
  element.flags = abi::kCompletionGrh | abi::kCompletionWithImm;
  element.is_receive = 1;
  fake(cq).push(&element, 0xabcdef);
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 55u);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 140u);
  EXPECT_EQ(wc.imm_data, 0x01020304u);
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
  EXPECT_EQ(wc.src_qp, 0xabcdefu);
  EXPECT_EQ(wc.qp_num, qp->qp_num);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Completion, ServiceLevelTellsTheKindOfARoutingHeader) {
  ibv_cq* cq = make_cq(4);
  ibv_qp* qp = make_qp(cq, IBV_QPT_UD);
  move(qp, IBV_QPS_RTS);
  const struct {
    int flags;
    unsigned wc_flags;
    unsigned service_level;
  } cases[] = {{abi::kCompletionGrh | abi::kCompletionIpv4, IBV_WC_GRH, 10},
               {abi::kCompletionGrh, IBV_WC_GRH, 9},
               {0, 0, 0}};
  for (const auto& expected : cases) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
    abi::CompletionElement element{};
    element.qpn = qp->qp_num;
    element.index = fake(qp).receive.producer() - 1;
    element.opcode = IBV_WC_RECV;
    element.flags = static_cast<std::uint8_t>(expected.flags);
    element.is_receive = 1;
    fake(cq).push(&element, 1);
    ibv_wc wc{};
    ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
    EXPECT_EQ(wc.wc_flags, expected.wc_flags);
    EXPECT_EQ(wc.sl, expected.service_level);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Completion, ResizeKeepsWhatWaits) {
  ibv_cq* cq = make_cq(4);
  ibv_qp* qp = make_qp(cq);
  move(qp, IBV_QPS_RTS);
  for (std::uint32_t i = 0; i < 4; ++i) {
    post(qp, i);
    complete(cq, qp, i);
  }
  EXPECT_EQ(ibv_resize_cq(cq, 3), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq, 5000), EINVAL);
  ibv_wc wc[8];
  ASSERT_EQ(ibv_poll_cq(cq, 1, wc), 1);
  ASSERT_EQ(ibv_resize_cq(cq, 8), 0);
  EXPECT_EQ(cq->cqe, 8);
  post(qp, 4);
  complete(cq, qp, 4);
  EXPECT_EQ(ibv_resize_cq(cq, 3), EINVAL);  // 3 of the first ring, 1 of the second
  ASSERT_EQ(ibv_poll_cq(cq, 1, wc), 1);
  EXPECT_EQ(wc[0].wr_id, 1u);
  ASSERT_EQ(ibv_resize_cq(cq, 3), 0);
  post(qp, 5);
  complete(cq, qp, 5);
  ASSERT_EQ(ibv_poll_cq(cq, 8, wc), 4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(wc[i].wr_id, 2 + i);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Completion, ResizeKeepsTheArming) {
  ibv_cq* cq = make_cq(4);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(ibv_resize_cq(cq, 8), 0);
  EXPECT_EQ(fake(cq).header().arm.load(), abi::kArmAny);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

class Channel : public Completion {
 protected:
  void SetUp() override {
    Completion::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!kernel_refuses_ioctls()) GTEST_SKIP() << "libibverbs makes no channel";
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr) << std::strerror(errno);
  }
  void TearDown() override {
    if (channel_ != nullptr) {
      EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    }
    Completion::TearDown();
  }
  void set_nonblocking() {
    ASSERT_EQ(::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  }
  bool readable() {
    pollfd state{channel_->fd, POLLIN, 0};
    return ::poll(&state, 1, 0) == 1;
  }

  ibv_comp_channel* channel_ = nullptr;
};

TEST_F(Channel, DeliversEvents) {
  ibv_cq* cq = make_cq(4, channel_);
  int marker = 0;
  cq->cq_context = &marker;
  EXPECT_EQ(fake(cq).channel, session().channels.begin()->first);
  EXPECT_FALSE(readable());
  session().send_completion_event(fake(cq));
  EXPECT_TRUE(readable());
  ibv_cq* from = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &context), 0);
  EXPECT_EQ(from, cq);
  EXPECT_EQ(context, &marker);
  ibv_ack_cq_events(cq, 1);
  set_nonblocking();
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Channel, BlockedReaderIsWoken) {
  ibv_cq* cq = make_cq(4, channel_);
  ibv_cq* from = nullptr;
  void* context = nullptr;
  std::thread reader([&] { EXPECT_EQ(ibv_get_cq_event(channel_, &from, &context), 0); });
  session().send_completion_event(fake(cq));
  reader.join();
  EXPECT_EQ(from, cq);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Channel, EachArmingAsksForAnEvent) {
  ibv_cq* cq = make_cq(4, channel_);
  std::atomic<std::uint32_t>& arm = fake(cq).header().arm;
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  EXPECT_EQ(arm.load(), abi::kArmSolicited);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  EXPECT_EQ(arm.load(), abi::kArmSolicited | abi::kArmAny);
  arm.store(abi::kArmNone);  // as with an event, which the program does not fetch
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  EXPECT_EQ(arm.load(), abi::kArmSolicited);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Channel, EventsOfADestroyedQueueAreDropped) {
  ibv_cq* gone = make_cq(4, channel_);
  ibv_cq* stays = make_cq(4, channel_);
  session().send_completion_event(fake(gone));
  session().send_completion_event(fake(stays));
  EXPECT_EQ(ibv_destroy_cq(gone), 0);
  ibv_cq* from = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &context), 0);
  EXPECT_EQ(from, stays);
  ibv_ack_cq_events(stays, 1);
  EXPECT_EQ(ibv_destroy_cq(stays), 0);
}

TEST_F(Channel, DescriptorDoesNotSignalEventsOfADestroyedQueue) {
  ibv_cq* cq = make_cq(4, channel_);
  session().send_completion_event(fake(cq));
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_FALSE(readable());
}

TEST_F(Channel, DestroyWaitsForAcknowledgement) {
  ibv_cq* cq = make_cq(4, channel_);
  session().send_completion_event(fake(cq));
  ibv_cq* from = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &context), 0);
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    destroyed = true;
  });
  while (daemon().count(abi::Operation::kDestroyCq) == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_FALSE(destroyed);
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
}

TEST_F(Channel, OfAnotherContextIsRefused) {
  ibv_context* other = world_->open();
  ASSERT_NE(other, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(other, 4, nullptr, channel_, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(Channel, FailureToMakeOneIsReported) {
  daemon().fail_next(abi::Operation::kCreateChannel, EMFILE);
  errno = 0;
  EXPECT_EQ(ibv_create_comp_channel(context_), nullptr);
  EXPECT_EQ(errno, EMFILE);
}

class AsyncEvent : public Completion {};

TEST_F(AsyncEvent, NamesItsObject) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  session().send_async_event(reinterpret_cast<std::uintptr_t>(qp), IBV_EVENT_QP_FATAL);
  session().send_async_event(1, IBV_EVENT_PORT_ERR);
  session().send_async_event(reinterpret_cast<std::uintptr_t>(cq), IBV_EVENT_CQ_ERR);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, qp);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.element.port_num, 1);
  ibv_ack_async_event(&event);
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.element.cq, cq);
  ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(AsyncEvent, OfADestroyedObjectIsDropped) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  session().send_async_event(1, IBV_EVENT_PORT_ERR);
  session().send_async_event(reinterpret_cast<std::uintptr_t>(qp), IBV_EVENT_QP_FATAL);
  session().send_async_event(2, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace softhca::provider::test
