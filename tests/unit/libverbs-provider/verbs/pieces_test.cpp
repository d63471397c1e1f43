// SPDX-License-Identifier: Apache-2.0

// Commands of the ibv_wr_ calls in virtual collect buffers, piece by piece ($SOFTHCA_KICK, or as
// the daemon asks).
#include <bit>
#include <cstdlib>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class PiecesTest : public DeviceTest {
 protected:
  void TearDown() override {
    if (qp_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(&qp_->qp_base), 0);
    }
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    }
    DeviceTest::TearDown();
  }

  virtual bool is_virtual() const { return true; }
  void use(ibv_qp_type type) {
    cq_ = make_cq();
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {64, 8, 4, 4, 64};
    init.qp_type = type;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
    ASSERT_NE(qp, nullptr) << errno;
    qp_ = ibv_qp_to_qp_ex(qp);
    move(qp, IBV_QPS_RTS);
  }
  /// The scoreboard of the VCB that the next command is written to, VCBs being free.
  std::uint64_t board() { return session().vcb(at_).scoreboard.load(); }
  std::uint64_t kind() const { return is_virtual() ? abi::kVirtualKick : 0; }

  /// The last command is in the next VCB: all that the command in the send queue says, and the
  /// bits of that.
  void expect_command_in_vcb(std::uint32_t sequence) {
    EXPECT_EQ(session().handed_over(), std::uint64_t{1} << at_);
    FakeQp& fake_qp = fake(&qp_->qp_base);
    const abi::CommandHeader header = fake_qp.command(sequence);
    const std::uint64_t board = this->board(), needless = abi::needless_segments(header);
    EXPECT_EQ(board & abi::kVirtualKick, kind());
    EXPECT_EQ((board & abi::kExplicitKick) == 0, is_virtual());
    EXPECT_EQ((board | needless) & abi::kAllSegments, abi::kAllSegments);
    EXPECT_EQ(board & needless, 0u) << "written for nothing";
    const auto* in_queue = reinterpret_cast<const std::byte*>(&header);
    const std::uint8_t* in_vcb = session().vcb(at_).command;
    for (unsigned i = 0; i < 8; ++i) {
      const std::byte zeros[8] = {};
      const bool left_out = (needless >> i & 1) != 0;
      EXPECT_EQ(std::memcmp(in_queue + 8 * i, left_out ? zeros : in_queue + 8 * i, 8), 0) << i;
      if (!left_out) {
        EXPECT_EQ(std::memcmp(in_queue + 8 * i, in_vcb + 8 * i, 8), 0) << i;
      }
    }
    EXPECT_EQ(std::memcmp(fake_qp.payload(sequence), in_vcb + sizeof header, header.payload_bytes),
              0);
    take();
  }
  /// The engine has done with it.
  void take() {
    session().release_vcbs(session().handed_over());
    at_ = (at_ + 1) % 8;
  }

  ibv_cq* cq_ = nullptr;
  ibv_qp_ex* qp_ = nullptr;
  unsigned at_ = 0;
};

class Pieces : public PiecesTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ::setenv("SOFTHCA_KICK", GetParam(), 1);
    DeviceTest::SetUp();
    ::unsetenv("SOFTHCA_KICK");
  }
  bool is_virtual() const override { return GetParam() == std::string("virtual"); }
};

TEST_P(Pieces, ComeAsTheCallsBringThem) {
  use(IBV_QPT_RC);
  ibv_wr_start(qp_);
  EXPECT_EQ(session().handed_over(), 0u);
  ibv_wr_rdma_write(qp_, 99, 0xabcdef00);
  EXPECT_EQ(session().handed_over(), is_virtual() ? 1u : 0u);
  EXPECT_EQ(board(), kind() | 0b1100);
  char hello[] = "hello, world";
  const ibv_data_buf data[] = {{hello, 9}, {hello + 9, 3}};
  ibv_wr_set_inline_data_list(qp_, 2, data);
  EXPECT_EQ(board(), kind() | 0b1'0000'1100) << "whole segments";
  EXPECT_EQ(session().handed_over(), is_virtual() ? 1u : 0u);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_command_in_vcb(0);
}

TEST_P(Pieces, OfEveryKindOfCommand) {
  use(IBV_QPT_RC);
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const ibv_mw_bind_info bind{nullptr, 0, 0, 0};
  std::uint32_t sequence = 0;
  const auto post = [&](auto&& make) {
    ibv_wr_start(qp_);
    make();
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
    expect_command_in_vcb(sequence++);
  };
  const auto entry = [&] { ibv_wr_set_sge(qp_, 7, 0x1000, 100); };
  post([&] { ibv_wr_send(qp_), entry(); });
  post([&] { ibv_wr_send(qp_); });
  post([&] { ibv_wr_send_imm(qp_, 0x11223344), entry(); });
  post([&] { ibv_wr_send_inv(qp_, 4711), entry(); });
  post([&] { ibv_wr_rdma_write(qp_, 1, 2), entry(); });
  post([&] { ibv_wr_rdma_write_imm(qp_, 1, 2, 3), entry(); });
  post([&] { ibv_wr_rdma_read(qp_, 1, 2), entry(); });
  post([&] { ibv_wr_atomic_cmp_swp(qp_, 1, 8, 11, 22), entry(); });
  post([&] { ibv_wr_atomic_fetch_add(qp_, 1, 8, 33), entry(); });
  post([&] { ibv_wr_local_inv(qp_, 4711); });
  post([&] { ibv_wr_bind_mw(qp_, mw, mw->rkey, &bind); });
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_P(Pieces, OfADatagram) {
  use(IBV_QPT_UD);
  ibv_ah_attr attr{};
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  ibv_wr_set_ud_addr(qp_, ah, 0x123456, 0x80010000);
  EXPECT_EQ(board(), kind() | 0b1100'0000);
  ibv_wr_set_sge(qp_, 7, 0x1000, 100);
  EXPECT_EQ(ibv_wr_complete(qp_), 0);
  expect_command_in_vcb(0);
  ibv_wr_set_ud_addr(qp_, ah, 1, 2);  // of no command
  ibv_wr_start(qp_);
  ibv_wr_set_ud_addr(qp_, ah, 1, 2);
  ibv_wr_abort(qp_);
  EXPECT_EQ(session().handed_over(), 0u);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_P(Pieces, OfALongChainGoByDoorbell) {
  use(IBV_QPT_RC);
  ibv_wr_start(qp_);
  for (int i = 0; i < 6; ++i) ibv_wr_send(qp_);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(session().handed_over(), 0b1111u);
  EXPECT_EQ(session().header().doorbell_producer.load(), 1u);
  EXPECT_EQ(session().doorbell(0).sequence, 6u);
  EXPECT_EQ(abi::cause_of(session().doorbell(0)), abi::DoorbellCause::kChain);
  for (unsigned vcb = 4; vcb < 8; ++vcb) EXPECT_EQ(session().vcb(vcb).scoreboard.load(), 0u);
}

TEST_P(Pieces, WithoutAVcbGoByDoorbell) {
  use(IBV_QPT_RC);
  for (int i = 0; i < 9; ++i) {
    ibv_wr_start(qp_);
    ibv_wr_send(qp_);
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
  }
  EXPECT_EQ(session().handed_over(), 0xffu);
  EXPECT_EQ(session().header().doorbell_producer.load(), 1u);
  EXPECT_EQ(abi::cause_of(session().doorbell(0)), abi::DoorbellCause::kNoVcb);
}

TEST_P(Pieces, BehindADoorbellGoByDoorbell) {
  use(IBV_QPT_RC);
  for (int i = 0; i < 9; ++i) {
    ibv_wr_start(qp_);
    ibv_wr_send(qp_);
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
  }
  session().release_vcbs(0xff);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(session().handed_over(), 0u);
  EXPECT_EQ(session().header().doorbell_producer.load(), 2u);
}

TEST_P(Pieces, OfWhatIsNotPostedAreWithdrawn) {
  use(IBV_QPT_RC);
  const auto begin_two = [&] {
    ibv_wr_start(qp_);
    ibv_wr_send(qp_);
    ibv_wr_set_sge(qp_, 1, 2, 3);
    ibv_wr_rdma_write(qp_, 1, 2);
  };
  const auto expect_withdrawn = [&] {
    EXPECT_EQ(std::popcount(session().handed_over()), is_virtual() ? 2 : 0);
    for (unsigned i = 0; i < 2; ++i, at_ = (at_ + 1) % 8)
      if (is_virtual()) {
        EXPECT_EQ(board(), abi::kWithdrawn);
      }
    session().release_vcbs(session().handed_over());
  };
  begin_two();
  ibv_wr_abort(qp_);
  expect_withdrawn();
  begin_two();
  const ibv_sge list[5] = {};  // max_send_sge is 4
  ibv_wr_set_sge_list(qp_, 5, list);
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
  expect_withdrawn();
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_command_in_vcb(0);
}

TEST_P(Pieces, WakeAnEngineThatIsNotPolling) {
  use(IBV_QPT_RC);
  session().header().parked.store(1);
  ibv_wr_start(qp_);
  ibv_wr_send(qp_);
  EXPECT_EQ(session().wakes(), 0u);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  EXPECT_EQ(session().wakes(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Kick, Pieces, testing::Values("virtual", "explicit"),
                         [](const auto& kick) { return std::string(kick.param); });

/// The daemon asks for a mode, and the program may have chosen one.
class KickOfDaemon : public PiecesTest {
 protected:
  void SetUp() override {
    std::string reason;
    world_ = World::instance(reason);
    if (world_ == nullptr) GTEST_SKIP() << reason;
  }
  void TearDown() override {
    if (world_ == nullptr) return;
    ::unsetenv("SOFTHCA_KICK");
    PiecesTest::TearDown();
    daemon().device().capabilities = abi::kCanReachProcess | abi::kCanResizeSrq;
  }
  /// `asked`: the place of the word in `kick` of the configuration.
  void open(std::uint32_t asked, const char* program = nullptr) {
    daemon().device().capabilities |= abi::kick_capability(asked);
    if (program != nullptr) ::setenv("SOFTHCA_KICK", program, 1);
    DeviceTest::SetUp();
    use(IBV_QPT_RC);
  }
  /// Begins and completes a command. Returns the VCBs that the engine had before it was complete.
  std::uint64_t post() {
    ibv_wr_start(qp_);
    ibv_wr_send(qp_);
    const std::uint64_t early = session().handed_over();
    EXPECT_EQ(ibv_wr_complete(qp_), 0);
    session().release_vcbs(session().handed_over());
    return early;
  }
  static constexpr std::uint32_t kAuto = 0, kVirtual = 2, kUnknown = 5;
};

TEST_F(KickOfDaemon, ProgramChoseNone_IsFollowed) {
  open(kVirtual);
  EXPECT_NE(post(), 0u);
}

TEST_F(KickOfDaemon, ProgramChoseOne_IsNot) {
  open(kVirtual, "whole");
  EXPECT_EQ(post(), 0u);
}

TEST_F(KickOfDaemon, Unknown_IsIgnored) {
  open(kUnknown);
  EXPECT_EQ(post(), 0u);
}

TEST_F(KickOfDaemon, Auto_IsVirtualOnlyWhileTheSendQueueIsIdle) {
  open(kAuto);
  EXPECT_NE(post(), 0u);
  EXPECT_EQ(post(), 0u) << "the first command is under way";
  complete(cq_, &qp_->qp_base, 1);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_NE(post(), 0u);
}

class KickNames : public DeviceTest {};

TEST_F(KickNames, OthersAreAnError) {
  ::setenv("SOFTHCA_KICK", "later", 1);
  errno = 0;
  EXPECT_EQ(world_->open(), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ::unsetenv("SOFTHCA_KICK");
}

}  // namespace
}  // namespace softhca::provider::test
