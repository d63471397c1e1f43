// SPDX-License-Identifier: Apache-2.0

// Programs look at errno when a verb has failed, whatever it returns: rdma-core's kernel path
// leaves the reason there.
#include <fcntl.h>
#include <sys/socket.h>

#include <functional>
#include <vector>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

using abi::Operation;

constexpr int kRefused = EDQUOT;
constexpr int kUntouched = ENOTBLK;

class Errno : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    cq_ = make_cq();
    qp_ = make_qp(cq_);
    ibv_srq_init_attr init{};
    init.attr.max_wr = 4;
    init.attr.max_sge = 1;
    srq_ = ibv_create_srq(pd_, &init);
    mr_ = ibv_reg_mr(pd_, memory_, sizeof memory_, IBV_ACCESS_LOCAL_WRITE);
    mw_ = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
    ah_ = ibv_create_ah(pd_, &address_);
    xrcd_ = open_domain();
    ASSERT_TRUE(srq_ != nullptr && mr_ != nullptr && mw_ != nullptr && ah_ != nullptr &&
                xrcd_ != nullptr);
  }
  void TearDown() override {
    const auto end = [](auto* object, auto destroy) {
      if (object != nullptr) {
        EXPECT_EQ(destroy(object), 0);
      }
    };
    end(xrcd_, ibv_close_xrcd);
    end(ah_, ibv_destroy_ah);
    end(mw_, [](ibv_mw* mw) { return ibv_dealloc_mw(mw); });
    end(mr_, ibv_dereg_mr);
    end(srq_, ibv_destroy_srq);
    end(qp_, ibv_destroy_qp);
    end(cq_, ibv_destroy_cq);
    DeviceTest::TearDown();
  }

  ibv_xrcd* open_domain() {
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    init.fd = -1;
    init.oflags = O_CREAT;
    return ibv_open_xrcd(context_, &init);
  }

  char memory_[64]{};
  ibv_ah_attr address_{.grh = {},
                       .dlid = 0,
                       .sl = 0,
                       .src_path_bits = 0,
                       .static_rate = 0,
                       .is_global = 1,
                       .port_num = 1};
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_mw* mw_ = nullptr;
  ibv_ah* ah_ = nullptr;
  ibv_xrcd* xrcd_ = nullptr;
};

TEST_F(Errno, DaemonRefuses_EveryVerbSetsIt) {
  ibv_qp_init_attr qp_init{};
  qp_init.send_cq = qp_init.recv_cq = cq_;
  qp_init.qp_type = IBV_QPT_RC;
  ibv_qp_init_attr_ex qp_init_ex{};
  qp_init_ex.send_cq = qp_init_ex.recv_cq = cq_;
  qp_init_ex.qp_type = IBV_QPT_RC;
  qp_init_ex.comp_mask = IBV_QP_INIT_ATTR_PD;
  qp_init_ex.pd = pd_;
  ibv_srq_init_attr srq_init{};
  srq_init.attr.max_wr = 1;
  ibv_cq_init_attr_ex cq_init{};
  cq_init.cqe = 1;
  ibv_qp_attr qp_attr{};
  ibv_srq_attr srq_attr{};
  srq_attr.max_wr = 8;
  ibv_modify_cq_attr cq_attr{};
  cq_attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  ibv_port_attr port{};
  ibv_gid group{};
  const std::vector<std::pair<Operation, std::function<bool()>>> verbs = {
      {Operation::kAllocPd, [&] { return ibv_alloc_pd(context_) == nullptr; }},
      {Operation::kDeallocPd, [&] { return ibv_dealloc_pd(pd_) == kRefused; }},
      {Operation::kRegisterMr, [&] { return ibv_reg_mr(pd_, memory_, 8, 0) == nullptr; }},
      {Operation::kReregisterMr,
       [&] { return ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, pd_, nullptr, 0, 0) != 0; }},
      {Operation::kDeregisterMr, [&] { return ibv_dereg_mr(mr_) == kRefused; }},
      {Operation::kAllocNullMr, [&] { return ibv_alloc_null_mr(pd_) == nullptr; }},
      {Operation::kAllocWindow, [&] { return ibv_alloc_mw(pd_, IBV_MW_TYPE_2) == nullptr; }},
      {Operation::kDeallocWindow, [&] { return ibv_dealloc_mw(mw_) == kRefused; }},
      {Operation::kCreateAh, [&] { return ibv_create_ah(pd_, &address_) == nullptr; }},
      {Operation::kDestroyAh, [&] { return ibv_destroy_ah(ah_) == kRefused; }},
      {Operation::kCreateChannel, [&] { return ibv_create_comp_channel(context_) == nullptr; }},
      {Operation::kCreateCq,
       [&] { return ibv_create_cq(context_, 1, nullptr, nullptr, 0) == nullptr; }},
      {Operation::kCreateCq, [&] { return ibv_create_cq_ex(context_, &cq_init) == nullptr; }},
      {Operation::kResizeCq, [&] { return ibv_resize_cq(cq_, 32) == kRefused; }},
      {Operation::kModifyCq, [&] { return ibv_modify_cq(cq_, &cq_attr) == kRefused; }},
      {Operation::kDestroyCq, [&] { return ibv_destroy_cq(cq_) == kRefused; }},
      {Operation::kCreateSrq, [&] { return ibv_create_srq(pd_, &srq_init) == nullptr; }},
      {Operation::kModifySrq,
       [&] { return ibv_modify_srq(srq_, &srq_attr, IBV_SRQ_LIMIT) == kRefused; }},
      {Operation::kResizeSrq,
       [&] { return ibv_modify_srq(srq_, &srq_attr, IBV_SRQ_MAX_WR) == kRefused; }},
      {Operation::kQuerySrq, [&] { return ibv_query_srq(srq_, &srq_attr) == kRefused; }},
      {Operation::kDestroySrq, [&] { return ibv_destroy_srq(srq_) == kRefused; }},
      {Operation::kCreateQp, [&] { return ibv_create_qp(pd_, &qp_init) == nullptr; }},
      {Operation::kCreateQp, [&] { return ibv_create_qp_ex(context_, &qp_init_ex) == nullptr; }},
      {Operation::kModifyQp,
       [&] { return ibv_modify_qp(qp_, &qp_attr, IBV_QP_MIN_RNR_TIMER) == kRefused; }},
      {Operation::kQueryQp, [&] { return ibv_query_qp(qp_, &qp_attr, 0, &qp_init) == kRefused; }},
      {Operation::kAttachMulticast, [&] { return ibv_attach_mcast(qp_, &group, 0) == kRefused; }},
      {Operation::kDetachMulticast, [&] { return ibv_detach_mcast(qp_, &group, 0) == kRefused; }},
      {Operation::kDestroyQp, [&] { return ibv_destroy_qp(qp_) == kRefused; }},
      {Operation::kOpenXrcDomain, [&] { return open_domain() == nullptr; }},
      {Operation::kCloseXrcDomain, [&] { return ibv_close_xrcd(xrcd_) == kRefused; }},
      {Operation::kQueryPort, [&] { return ibv_query_port(context_, 1, &port) == kRefused; }},
      {Operation::kImportPd, [&] { return ibv_import_pd(context_, 1) == nullptr; }},
      {Operation::kImportMr, [&] { return ibv_import_mr(pd_, 1) == nullptr; }},
  };
  for (const auto& [operation, fails] : verbs) {
    daemon().fail_next(operation, kRefused);
    errno = 0;
    EXPECT_TRUE(fails()) << static_cast<unsigned>(operation);
    EXPECT_EQ(errno, kRefused) << static_cast<unsigned>(operation);
  }
}

TEST_F(Errno, ProviderRefuses_EveryVerbSetsIt) {
  std::uint32_t number = 0;
  ibv_sge nowhere{0, 1, 0xdead};
  ibv_mw_bind bind{};
  ibv_send_wr send{};
  ibv_send_wr* bad_send = nullptr;
  ibv_sge many[8]{};
  ibv_recv_wr receive{};
  receive.sg_list = many;
  receive.num_sge = 8;
  ibv_recv_wr* bad_receive = nullptr;
  ibv_td_init_attr td_init{};
  ibv_td* td = ibv_alloc_td(context_, &td_init);
  ibv_parent_domain_init_attr parent_init{.pd = pd_, .td = td};
  ibv_pd* parent = ibv_alloc_parent_domain(context_, &parent_init);
  ASSERT_NE(parent, nullptr);
  const std::vector<std::pair<int, std::function<int()>>> verbs = {
      {EINVAL, [&] { return ibv_get_srq_num(srq_, &number); }},
      {ENOENT, [&] { return ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &nowhere, 1); }},
      {EINVAL, [&] { return ibv_bind_mw(qp_, mw_, &bind); }},
      {EINVAL, [&] { return ibv_post_send(qp_, &send, &bad_send); }},
      {EINVAL, [&] { return ibv_post_recv(qp_, &receive, &bad_receive); }},
      {EINVAL, [&] { return ibv_post_srq_recv(srq_, &receive, &bad_receive); }},
      {EBUSY, [&] { return ibv_dealloc_td(td); }},
      {EBUSY, [&] { return ibv_dealloc_pd(pd_); }},
  };
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    errno = 0;
    EXPECT_EQ(verbs[i].second(), verbs[i].first) << i;
    EXPECT_EQ(errno, verbs[i].first) << i;
  }
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(Errno, DaemonGone_PollingArmingAndPostingSetIt) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  ::shutdown(session().channels.begin()->second, SHUT_RDWR);
  daemon().hang_up();
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context_, 1, &port), EIO);
  ibv_wc wc;
  ibv_send_wr send{};
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  const std::function<bool()> verbs[] = {
      [&] { return ibv_poll_cq(cq_, 1, &wc) < 0; },
      [&] { return ibv_req_notify_cq(cq_, 0) == EIO; },
      [&] { return ibv_post_send(qp_, &send, &bad_send) == EIO; },
      [&] { return ibv_post_recv(qp_, &receive, &bad_receive) == EIO; },
      [&] { return ibv_post_srq_recv(srq_, &receive, &bad_receive) == EIO; },
      [&] { return ibv_resize_cq(cq_, 32) == EIO; },
      [&] {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        return ibv_get_cq_event(channel, &cq, &context) == -1;
      },
  };
  for (const auto& fails : verbs) {
    errno = 0;
    EXPECT_TRUE(fails());
    EXPECT_EQ(errno, EIO);
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(Errno, Success_LeavesItAsItWas) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ibv_cq* const cq = make_cq();
  errno = kUntouched;
  EXPECT_EQ(ibv_query_qp(qp_, &attr, 0, &init), 0);
  EXPECT_EQ(errno, kUntouched);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);  // looks for events of it
  EXPECT_EQ(errno, kUntouched);
}

}  // namespace
}  // namespace softhca::provider::test
