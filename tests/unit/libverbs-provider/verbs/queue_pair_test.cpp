// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class QueuePair : public DeviceTest {};

TEST_F(QueuePair, IsCreatedAsAsked) {
  ibv_cq* cq = make_cq();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_UC;
  init.sq_sig_all = 1;
  init.cap = {5, 6, 3, 2, 40};
  int marker = 0;
  init.qp_context = &marker;
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  const auto request = daemon().last<abi::CreateQpRequest>(abi::Operation::kCreateQp);
  EXPECT_EQ(request.user_handle, reinterpret_cast<std::uintptr_t>(qp));
  EXPECT_EQ(request.type, unsigned{IBV_QPT_UC});
  EXPECT_EQ(request.send_cq, cq->handle);
  EXPECT_EQ(request.srq, abi::kNoHandle);
  EXPECT_EQ(request.max_send_wr, 5u);
  EXPECT_EQ(request.max_receive_wr, 6u);
  EXPECT_EQ(request.max_send_sge, 3u);
  EXPECT_EQ(request.max_receive_sge, 2u);
  EXPECT_EQ(request.max_inline, 40u);
  EXPECT_EQ(request.signal_all, 1u);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(qp->qp_context, &marker);
  EXPECT_EQ(qp->qp_num, fake(cq).user_handle == 0 ? 0 : session().qps.begin()->first);

  ibv_qp_attr attr{};
  ibv_qp_init_attr again{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &again), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(qp->state, IBV_QPS_ERR);
  EXPECT_EQ(attr.dest_qp_num, 77u);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(attr.ah_attr.grh.sgid_index, 3);
  EXPECT_EQ(attr.cap.max_send_wr, 5u);
  EXPECT_EQ(again.sq_sig_all, 1);
  EXPECT_EQ(again.qp_type, IBV_QPT_UC);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

/// An initiator of XRC has nothing to receive by, whatever it is made with.
TEST_F(QueuePair, InitiatorAsksForNothingToReceiveBy) {
  ibv_cq* cq = make_cq();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_XRC_SEND;
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  const auto request = daemon().last<abi::CreateQpRequest>(abi::Operation::kCreateQp);
  EXPECT_EQ(request.receive_cq, abi::kNoHandle);
  EXPECT_EQ(request.srq, abi::kNoHandle);
  EXPECT_EQ(request.max_receive_wr, 0u);
  EXPECT_EQ(qp->recv_cq, nullptr);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(QueuePair, TargetNeedsADomain) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.pd = pd_;
  errno = 0;
  EXPECT_EQ(ibv_create_qp_ex(context_, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(QueuePair, UnknownTypesAreNotSupported) {
  ibv_cq* cq = make_cq();
  for (const ibv_qp_type type : {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER}) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = type;
    errno = 0;
    EXPECT_EQ(ibv_create_qp(pd_, &init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(QueuePair, ModifySendsWhatTheMaskNames) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 4711;
  attr.rq_psn = 0xabcdef;
  attr.min_rnr_timer = 12;
  attr.max_dest_rd_atomic = 5;
  attr.ah_attr.grh.sgid_index = 1;
  attr.timeout = 14;  // not in the mask
  const int mask = IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_AV;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, mask), 0);
  const auto request = daemon().last<abi::ModifyQpRequest>(abi::Operation::kModifyQp);
  EXPECT_EQ(request.qpn, qp->qp_num);
  EXPECT_EQ(request.attributes.mask, static_cast<unsigned>(mask));
  EXPECT_EQ(request.attributes.qp_state, unsigned{IBV_QPS_RTR});
  EXPECT_EQ(request.attributes.path_mtu, unsigned{IBV_MTU_1024});
  EXPECT_EQ(request.attributes.dest_qp_num, 4711u);
  EXPECT_EQ(request.attributes.rq_psn, 0xabcdefu);
  EXPECT_EQ(request.attributes.min_rnr_timer, 12);
  EXPECT_EQ(request.attributes.max_dest_rd_atomic, 5);
  EXPECT_EQ(request.attributes.av.sgid_index, 1);
  EXPECT_EQ(request.attributes.timeout, 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTR);

  daemon().fail_next(abi::Operation::kModifyQp, EINVAL);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(qp->state, IBV_QPS_RTR);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(QueuePair, JoinsAndLeavesMulticastGroups) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq, IBV_QPT_UD);
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[15] = 9;
  for (const auto& [change, operation] :
       {std::pair(&ibv_attach_mcast, abi::Operation::kAttachMulticast),
        std::pair(&ibv_detach_mcast, abi::Operation::kDetachMulticast)}) {
    EXPECT_EQ(change(qp, &group, 0), 0);
    const auto request = daemon().last<abi::MulticastRequest>(operation);
    EXPECT_EQ(request.qpn, qp->qp_num);
    EXPECT_EQ(std::memcmp(request.group, group.raw, sizeof group.raw), 0);
    daemon().fail_next(operation, EINVAL);
    EXPECT_EQ(change(qp, &group, 0), EINVAL);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(QueuePair, DestroyingItSilencesItsCompletions) {
  ibv_cq* cq = make_cq();
  ibv_qp* gone = make_qp(cq);
  ibv_qp* stays = make_qp(cq);
  for (ibv_qp* qp : {gone, stays}) {
    move(qp, IBV_QPS_RTS);
    auto chain = send_chain(2, qp == gone ? 100 : 200);
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, chain.data(), &bad), 0);
  }
  complete(cq, gone, 0);
  complete(cq, stays, 0);
  complete(cq, gone, 1);
  complete(cq, stays, 1);
  EXPECT_EQ(ibv_destroy_qp(gone), 0);
  ibv_wc wc[4];
  ASSERT_EQ(ibv_poll_cq(cq, 4, wc), 2);
  EXPECT_EQ(wc[0].wr_id, 200u);
  EXPECT_EQ(wc[1].wr_id, 201u);
  EXPECT_EQ(fake(cq).header().consumer.load(), 4u);
  EXPECT_EQ(ibv_destroy_qp(stays), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

/// Else a queue that is large enough for all that is under way would overflow.
TEST_F(QueuePair, DiscardedCompletionsTakeNoRoom) {
  ibv_cq* cq = make_cq(4);
  ibv_qp* stays = make_qp(cq);
  ibv_qp* resets = make_qp(cq);
  move(stays, IBV_QPS_RTS);
  auto chain = send_chain(1, 300);
  ibv_send_wr* bad = nullptr;
  for (std::uint32_t lap = 0; lap < 6; ++lap) {
    ASSERT_EQ(ibv_post_send(stays, chain.data(), &bad), 0);
    complete(cq, resets, 3 * lap);
    complete(cq, stays, lap);
    complete(cq, resets, 3 * lap + 1);
    complete(cq, resets, 3 * lap + 2);
    move(resets, IBV_QPS_RESET);
    EXPECT_EQ(fake(cq).header().consumer.load(), 4 * lap + 3);
    ibv_wc wc[2];
    ASSERT_EQ(ibv_poll_cq(cq, 2, wc), 1);
    EXPECT_EQ(wc[0].wr_id, 300u);
    EXPECT_EQ(wc[0].qp_num, stays->qp_num);
    EXPECT_EQ(fake(cq).header().consumer.load(), 4 * lap + 4);
  }
  EXPECT_EQ(ibv_destroy_qp(resets), 0);
  EXPECT_EQ(ibv_destroy_qp(stays), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(QueuePair, ResetStartsTheQueuesAnew) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  move(qp, IBV_QPS_RTS);
  auto chain = send_chain(8, 0);  // full
  ibv_send_wr* bad_send = nullptr;
  ASSERT_EQ(ibv_post_send(qp, chain.data(), &bad_send), 0);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
  complete(cq, qp, 0);
  move(qp, IBV_QPS_RESET);
  EXPECT_EQ(daemon().last<abi::ModifyQpRequest>(abi::Operation::kModifyQp).send_sequence, 8u);
  EXPECT_EQ(fake(qp).receive.producer(), 0u);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad), EINVAL);
  EXPECT_EQ(bad, &receive);

  move(qp, IBV_QPS_RTS);
  ASSERT_EQ(ibv_post_send(qp, chain.data(), &bad_send), 0);
  EXPECT_EQ(fake(qp).command(0).sequence, 8u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace softhca::provider::test
