// SPDX-License-Identifier: Apache-2.0

// Extended completion queues and queue pairs, parent domains.
#include <bit>
#include <ctime>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class Extended : public DeviceTest {
 protected:
  void TearDown() override {
    if (qp_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(base()), 0);
    }
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_)), 0);
    }
    DeviceTest::TearDown();
  }

  static constexpr std::uint64_t kAllFields = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

  ibv_cq_ex* make_cq_ex(std::uint64_t fields = kAllFields, std::uint32_t flags = 0) {
    ibv_cq_init_attr_ex init{};
    init.cqe = 8;
    init.wc_flags = fields;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    init.flags = flags;
    errno = 0;
    return ibv_create_cq_ex(context_, &init);
  }

  ibv_qp_init_attr_ex init_of(ibv_qp_type type, std::uint64_t operations) {
    if (cq_ == nullptr) cq_ = make_cq_ex();
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq_);
    init.cap = {8, 8, 4, 4, 64};
    init.qp_type = type;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = operations;
    return init;
  }
  void use(ibv_qp_type type, std::uint64_t operations = IBV_QP_EX_WITH_SEND) {
    auto init = init_of(type, operations);
    ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
    ASSERT_NE(qp, nullptr) << errno;
    qp_ = ibv_qp_to_qp_ex(qp);
    ASSERT_NE(qp_, nullptr);
    move(qp, IBV_QPS_RTS);
  }
  ibv_qp* base() { return &qp_->qp_base; }
  abi::CommandHeader command(std::uint32_t sequence) { return fake(base()).command(sequence); }

  ibv_cq_ex* cq_ = nullptr;
  ibv_qp_ex* qp_ = nullptr;
};

/// Versions of the library with this private interface, and where each looks for the flags of a
/// queue pair: sizeof(ibv_qp_ex) of its header, on x86-64.
constexpr struct {
  unsigned version;
  std::size_t flags;
} kLibraries[] = {{36, 344}, {39, 344}, {43, 344}, {44, 352}, {45, 360}, {50, 360}, {56, 360}};

std::uint32_t flags_in(ibv_qp* qp, std::size_t place) {
  std::uint32_t flags = 0;
  const std::size_t growth = sizeof(pthread_mutex_t) - 40;
  std::memcpy(&flags, reinterpret_cast<std::byte*>(qp) + place + growth, sizeof flags);
  return flags;
}

constexpr std::uint32_t kIsExtended = 2;

TEST_F(Extended, EachVersionOfTheLibraryFindsThatItIs) {
  use(IBV_QPT_RC);
  for (const auto& library : kLibraries)
    EXPECT_EQ(flags_in(base(), library.flags), kIsExtended) << library.version;
}

TEST_F(Extended, OneForAtomicWritesIsFoundByThoseThatKnowThem) {
  use(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE);
  EXPECT_NE(qp_->wr_atomic_write, nullptr);
  for (const auto& library : kLibraries)
    if (library.version >= 44) {
      EXPECT_EQ(flags_in(base(), library.flags), kIsExtended) << library.version;
    }
}

/// As of version 45, behind atomic write.
using Flush = void (*)(ibv_qp_ex*, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t,
                       std::uint8_t);
Flush flush_of(ibv_qp_ex* qp) {
  Flush flush = nullptr;
  std::memcpy(&flush, &qp->wr_atomic_write + 1, sizeof flush);
  return flush;
}
constexpr std::uint64_t kWithFlush = 1 << 11;

TEST_F(Extended, FlushesAreCommands) {
  // The library that this runs with may be 44, which does not find it: see above.
  auto init = init_of(IBV_QPT_RC, kWithFlush);
  ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
  ASSERT_NE(qp, nullptr) << errno;
  qp_ = reinterpret_cast<ibv_qp_ex*>(qp);
  move(qp, IBV_QPS_RTS);
  for (const auto& library : kLibraries)
    if (library.version >= 45) {
      EXPECT_EQ(flags_in(base(), library.flags), kIsExtended) << library.version;
    }
  const Flush flush = flush_of(qp_);
  const auto post = [&](std::uint8_t placement, std::uint8_t selectivity) {
    ibv_wr_start(qp_);
    flush(qp_, 9, 0x8000, 300, placement, selectivity);
    return ibv_wr_complete(qp_);
  };
  ASSERT_EQ(post(1, 0), 0);
  EXPECT_EQ(command(0).opcode, 14);
  EXPECT_EQ(command(0).rkey, 9u);
  EXPECT_EQ(command(0).remote_addr, 0x8000u);
  EXPECT_EQ(command(0).compare_add, 300u);
  EXPECT_EQ(command(0).swap, 1u);
  EXPECT_EQ(command(0).payload_bytes, 0);
  ASSERT_EQ(post(3, 1), 0);
  EXPECT_EQ(command(1).swap, 0x13u);
  EXPECT_EQ(post(0, 0), EINVAL);
  EXPECT_EQ(post(4, 0), EINVAL);
  EXPECT_EQ(post(1, 2), EINVAL);
}

TEST_F(Extended, OthersAreNotFound) {
  ibv_cq* const cq = make_cq();
  ibv_qp* const qp = make_qp(cq);
  for (const auto& library : kLibraries) EXPECT_EQ(flags_in(qp, library.flags), 0u);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Extended, CommandsAreThoseOfPostSend) {
  use(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                      IBV_QP_EX_WITH_SEND_WITH_INV);
  ibv_wr_start(qp_);
  qp_->wr_id = 77;
  qp_->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  ibv_wr_rdma_write_imm(qp_, 99, 0xabcdef00, 0x11223344);
  ibv_wr_set_sge(qp_, 7, 0x1000, 100);
  qp_->wr_flags = 0;
  ibv_wr_atomic_cmp_swp(qp_, 5, 0x8000, 11, 22);
  const ibv_sge list[] = {{0x2000, 4, 8}, {0x3000, 4, 9}};
  ibv_wr_set_sge_list(qp_, 2, list);
  ibv_wr_send_inv(qp_, 4711);
  char hello[] = "hello, world";
  const ibv_data_buf data[] = {{hello, 7}, {hello + 7, 5}};
  ibv_wr_set_inline_data_list(qp_, 2, data);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);

  const abi::CommandHeader write = command(0);
  EXPECT_EQ(write.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(write.flags, abi::kCommandSignaled | abi::kCommandFence);
  EXPECT_EQ(write.rkey, 99u);
  EXPECT_EQ(write.remote_addr, 0xabcdef00u);
  EXPECT_EQ(write.imm, 0x11223344u);
  EXPECT_EQ(write.payload_bytes, 16);
  const abi::CommandHeader atomic = command(1);
  EXPECT_EQ(atomic.sequence, 1u);
  EXPECT_EQ(atomic.compare_add, 11u);
  EXPECT_EQ(atomic.swap, 22u);
  EXPECT_EQ(atomic.payload_bytes, 32);
  const abi::CommandHeader send = command(2);
  EXPECT_EQ(send.rkey, 4711u);
  EXPECT_EQ(send.flags, abi::kCommandInline);
  EXPECT_EQ(send.payload_bytes, 12);
  EXPECT_EQ(std::memcmp(fake(base()).payload(2), "hello, world", 12), 0);
  EXPECT_EQ(std::popcount(session().handed_over()), 3);

  complete(ibv_cq_ex_to_cq(cq_), base(), 0);
  ibv_poll_cq_attr attr{};
  ASSERT_EQ(ibv_start_poll(cq_, &attr), 0);
  EXPECT_EQ(cq_->wr_id, 77u);
  ibv_end_poll(cq_);
}

TEST_F(Extended, WindowsAreBoundByCommands) {
  use(IBV_QPT_RC, IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_ATOMIC_WRITE);
  std::vector<char> memory(4096);
  ibv_mr* mr = ibv_reg_mr(pd_, memory.data(), 4096, IBV_ACCESS_MW_BIND);
  ASSERT_NE(mr, nullptr);
  ibv_mw* first = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ibv_mw* second = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  const std::uint32_t before = first->rkey;
  ibv_mw_bind bind{};
  bind.bind_info = {mr, reinterpret_cast<std::uintptr_t>(memory.data()), 100,
                    IBV_ACCESS_REMOTE_READ};
  ASSERT_EQ(ibv_bind_mw(base(), first, &bind), 0);
  EXPECT_EQ(first->rkey, ibv_inc_rkey(before));
  const abi::CommandHeader bound = command(0);
  EXPECT_EQ(bound.opcode, IBV_WR_BIND_MW);
  EXPECT_EQ(bound.rkey, first->rkey);
  EXPECT_EQ(bound.swap, mr->lkey);
  EXPECT_EQ(bound.compare_add, 100u);
  EXPECT_EQ(bound.imm, unsigned{IBV_ACCESS_REMOTE_READ});

  ibv_wr_start(qp_);
  ibv_wr_bind_mw(qp_, second, ibv_inc_rkey(second->rkey), &bind.bind_info);
  ibv_wr_local_inv(qp_, 4711);
  const std::uint64_t value = 0x1122334455667788;
  ibv_wr_atomic_write(qp_, 9, 0x8000, &value);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(command(2).rkey, 4711u);
  EXPECT_EQ(command(3).payload_bytes, 8);
  EXPECT_EQ(std::memcmp(fake(base()).payload(3), &value, 8), 0);

  ibv_wr_start(qp_);
  ibv_wr_bind_mw(qp_, first, ibv_inc_rkey(first->rkey), &bind.bind_info);  // of type 1
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  ibv_wr_start(qp_);
  ibv_wr_bind_mw(qp_, second, second->rkey + 0x100, &bind.bind_info);  // not its key
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  EXPECT_EQ(ibv_dealloc_mw(first), 0);
  EXPECT_EQ(ibv_dealloc_mw(second), 0);

  EXPECT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  const auto request = daemon().last<abi::ReregisterMrRequest>(abi::Operation::kReregisterMr);
  EXPECT_EQ(request.flags, unsigned{IBV_REREG_MR_CHANGE_ACCESS});
  EXPECT_EQ(request.region.access, unsigned{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Extended, AMistakeOrAbortTakesNothing) {
  use(IBV_QPT_RC);
  const auto mistakes = {
      +[](ibv_qp_ex* qp) { ibv_wr_set_sge(qp, 1, 2, 3); },  // before any operation
      +[](ibv_qp_ex* qp) {
        ibv_wr_send(qp);
        const ibv_sge list[5] = {};  // max_send_sge is 4
        ibv_wr_set_sge_list(qp, 5, list);
      },
      +[](ibv_qp_ex* qp) {
        char data[65];
        ibv_wr_send(qp);
        ibv_wr_set_inline_data(qp, data, 65);
      },
      +[](ibv_qp_ex* qp) {
        char data[8];
        ibv_wr_rdma_read(qp, 1, 2);
        ibv_wr_set_inline_data(qp, data, 8);
      },
      +[](ibv_qp_ex* qp) {
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, 1, 2, 3);
        ibv_wr_set_sge(qp, 1, 2, 3);
      }};
  for (const auto& mistake : mistakes) {
    ibv_wr_start(qp_);
    mistake(qp_);
    ibv_wr_send(qp_);
    EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  }
  ibv_wr_start(qp_);
  for (int i = 0; i < 9; ++i) ibv_wr_send(qp_);  // max_send_wr is 8
  EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  ibv_wr_send(qp_);
  ibv_wr_abort(qp_);
  EXPECT_EQ(session().handed_over(), 0u);

  move(base(), IBV_QPS_RESET);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  move(base(), IBV_QPS_RTS);
  ibv_wr_start(qp_);
  for (int i = 0; i < 8; ++i) ibv_wr_send(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);  // all places are still free
  EXPECT_EQ(command(0).sequence, 0u);
}

TEST_F(Extended, ADatagramNeedsAnAddress) {
  use(IBV_QPT_UD);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  ibv_ah_attr attr{};
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  ibv_wr_set_ud_addr(qp_, ah, 0x123456, 0x80010000);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(command(0).address_handle, ah->handle);
  EXPECT_EQ(command(0).remote_qpn, 0x123456u);
  EXPECT_EQ(command(0).remote_qkey, 0x80010000u);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Extended, WhatIsNotPossibleIsRefused) {
  const struct {
    ibv_qp_type type;
    std::uint64_t operations;
  } cases[] = {{IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE},
               {IBV_QPT_UC, kWithFlush},
               {IBV_QPT_XRC_SEND, kWithFlush},
               {IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ},
               {IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_ATOMIC_WRITE},
               {IBV_QPT_RC, IBV_QP_EX_WITH_TSO},
               {IBV_QPT_RC, 1ull << 40}};
  for (const auto& refused : cases) {
    auto init = init_of(refused.type, refused.operations);
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(context_, &init), nullptr) << refused.operations;
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  auto init = init_of(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
  init.pd = nullptr;
  EXPECT_EQ(ibv_create_qp_ex(context_, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  for (const ibv_create_cq_wc_flags fields : {IBV_WC_EX_WITH_TM_INFO, IBV_WC_EX_WITH_CVLAN}) {
    EXPECT_EQ(make_cq_ex(fields), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  EXPECT_EQ(make_cq_ex(0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_cq* const plain = make_cq();
  ibv_qp* const qp = make_qp(plain);
  EXPECT_EQ(ibv_qp_to_qp_ex(qp), nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(plain), 0);
}

TEST_F(Extended, FieldsAreReadOneByOne) {
  use(IBV_QPT_UD);
  ibv_poll_cq_attr attr{};
  EXPECT_EQ(ibv_start_poll(cq_, &attr), ENOENT);
  attr.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(cq_, &attr), EINVAL);
  attr.comp_mask = 0;

  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto stamp =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<unsigned>(now.tv_nsec);
  for (std::uint64_t i = 0; i < 2; ++i) {
    ibv_recv_wr wr{};
    wr.wr_id = 50 + i;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(base(), &wr, &bad), 0);
    abi::CompletionElement element{};
    element.qpn = qp_->qp_base.qp_num;
    element.index = static_cast<std::uint32_t>(i);
    element.byte_len = 140;
    element.imm = 0x01020304;
    element.timestamp = stamp;
    element.opcode = IBV_WC_RECV;
    element.flags = abi::kCompletionGrh | abi::kCompletionWithImm;
    element.is_receive = 1;
    fake(ibv_cq_ex_to_cq(cq_)).push(&element, 0xabcdef);
  }
  ASSERT_EQ(ibv_start_poll(cq_, &attr), 0);
  EXPECT_EQ(cq_->wr_id, 50u);
  EXPECT_EQ(cq_->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq_), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq_), 140u);
  EXPECT_EQ(ibv_wc_read_imm_data(cq_), 0x01020304u);
  EXPECT_EQ(ibv_wc_read_qp_num(cq_), qp_->qp_base.qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(cq_), 0xabcdefu);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq_), unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
  EXPECT_EQ(ibv_wc_read_sl(cq_), 9);
  EXPECT_EQ(ibv_wc_read_completion_ts(cq_), stamp);
  // The clock of the day: some time after 2020, whatever the machine's clock says now.
  EXPECT_GT(ibv_wc_read_completion_wallclock_ns(cq_), 1'577'836'800'000'000'000u);
  ASSERT_EQ(ibv_next_poll(cq_), 0);
  EXPECT_EQ(cq_->wr_id, 51u);
  EXPECT_EQ(ibv_next_poll(cq_), ENOENT);
  ibv_end_poll(cq_);
  EXPECT_EQ(fake(ibv_cq_ex_to_cq(cq_)).header().consumer.load(), 2u);

  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(context_, &values), 0);
  EXPECT_GE(static_cast<std::uint64_t>(values.raw_clock.tv_nsec), stamp);
}

TEST_F(Extended, AParentDomainStandsForItsProtectionDomain) {
  ibv_td_init_attr td_init{};
  ibv_td* td = ibv_alloc_td(context_, &td_init);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr init{};
  EXPECT_EQ(ibv_alloc_parent_domain(context_, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.pd = pd_;
  init.td = td;
  init.comp_mask = 1u << 30;
  EXPECT_EQ(ibv_alloc_parent_domain(context_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.comp_mask = 0;
  ibv_pd* parent = ibv_alloc_parent_domain(context_, &init);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(parent->handle, pd_->handle);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  const std::size_t before = daemon().count(abi::Operation::kDeallocPd);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(daemon().count(abi::Operation::kDeallocPd), before);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

}  // namespace
}  // namespace softhca::provider::test
