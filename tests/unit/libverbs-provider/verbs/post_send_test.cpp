// SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <set>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class PostSend : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    cq_ = make_cq();
    use(IBV_QPT_RC);
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
  void use(ibv_qp_type type) {
    if (qp_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    }
    qp_ = make_qp(cq_, type);
    move(qp_, IBV_QPS_RTS);
  }
  int post(ibv_send_wr& wr) { return ibv_post_send(qp_, &wr, &bad_); }

  /// The header in a VCB.
  abi::CommandHeader vcb_header(unsigned i) {
    abi::CommandHeader header;
    std::memcpy(&header, session().vcb(i).command, sizeof header);
    return header;
  }

  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_send_wr* bad_ = nullptr;
};

TEST_F(PostSend, GoesToTheSendQueueAndToAVcb) {
  ibv_sge entries[] = {{0x1000, 100, 7}, {0x2000, 200, 8}};
  ibv_send_wr wr{};
  wr.wr_id = 42;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED;
  wr.sg_list = entries;
  wr.num_sge = 2;
  wr.imm_data = 0x11223344;
  wr.wr.rdma = {0xabcdef00, 99};
  ASSERT_EQ(post(wr), 0);

  const abi::CommandHeader queued = fake(qp_).command(0);
  EXPECT_EQ(queued.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(queued.flags, abi::kCommandSignaled | abi::kCommandFence | abi::kCommandSolicited);
  EXPECT_EQ(queued.payload_bytes, 32);
  EXPECT_EQ(queued.qpn, qp_->qp_num);
  EXPECT_EQ(queued.sequence, 0u);
  EXPECT_EQ(queued.remote_addr, 0xabcdef00u);
  EXPECT_EQ(queued.rkey, 99u);
  EXPECT_EQ(queued.imm, 0x11223344u);

  const std::uint64_t handed = session().handed_over();
  ASSERT_EQ(std::popcount(handed), 1);
  abi::VcbPage& page = session().vcb(static_cast<unsigned>(std::countr_zero(handed)));
  EXPECT_EQ(page.scoreboard.load(), abi::kAllSegments);
  EXPECT_EQ(std::memcmp(page.command, &queued, sizeof queued), 0);
  EXPECT_EQ(std::memcmp(page.command + 64, fake(qp_).payload(0), 32), 0);
  abi::ScatterGather second;
  std::memcpy(&second, page.command + 80, sizeof second);
  EXPECT_EQ(second.addr, 0x2000u);
  EXPECT_EQ(second.length, 200u);
  EXPECT_EQ(second.lkey, 8u);
  EXPECT_EQ(session().header().doorbell_producer.load(), 0u);
}

TEST_F(PostSend, InlineDataIsGathered) {
  const char hello[] = "hello, ";
  const char world[] = "world";
  ibv_sge entries[] = {{reinterpret_cast<std::uintptr_t>(hello), 7, 0},
                       {0, 0, 0},
                       {reinterpret_cast<std::uintptr_t>(world), 5, 0},
                       {0, 0, 0},
                       {0, 0, 0}};  // more entries than max_send_sge: they are not sent as such
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;
  wr.sg_list = entries;
  wr.num_sge = 5;
  ASSERT_EQ(post(wr), 0);
  const abi::CommandHeader header = fake(qp_).command(0);
  EXPECT_EQ(header.payload_bytes, 12);
  EXPECT_EQ(header.flags, abi::kCommandInline);
  EXPECT_EQ(std::memcmp(fake(qp_).payload(0), "hello, world", 12), 0);

  const std::vector<char> longest(64, 'x');
  entries[0] = {reinterpret_cast<std::uintptr_t>(longest.data()), 64, 0};
  wr.num_sge = 1;
  EXPECT_EQ(post(wr), 0);
  entries[0].length = 65;
  EXPECT_EQ(post(wr), EINVAL);
  EXPECT_EQ(bad_, &wr);
}

TEST_F(PostSend, AtomicsCarryTheirOperands) {
  ibv_sge entry{0x1000, 8, 7};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.sg_list = &entry;
  wr.num_sge = 1;
  wr.wr.atomic = {0x8000, 11, 22, 33};
  ASSERT_EQ(post(wr), 0);
  const abi::CommandHeader header = fake(qp_).command(0);
  EXPECT_EQ(header.remote_addr, 0x8000u);
  EXPECT_EQ(header.compare_add, 11u);
  EXPECT_EQ(header.swap, 22u);
  EXPECT_EQ(header.rkey, 33u);
  wr.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(post(wr), EINVAL);
}

TEST_F(PostSend, DatagramsCarryTheirDestination) {
  use(IBV_QPT_UD);
  ibv_ah_attr attr{};
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ASSERT_NE(ah, nullptr);
  auto chain = send_chain(1, 0);
  chain[0].wr.ud = {ah, 0x123456, 0x80010000};
  ASSERT_EQ(post(chain[0]), 0);
  const abi::CommandHeader header = fake(qp_).command(0);
  EXPECT_EQ(header.address_handle, ah->handle);
  EXPECT_EQ(header.remote_qpn, 0x123456u);
  EXPECT_EQ(header.remote_qkey, 0x80010000u);
  chain[0].opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(post(chain[0]), EINVAL);
  chain[0].opcode = IBV_WR_SEND;
  chain[0].wr.ud.ah = nullptr;
  EXPECT_EQ(post(chain[0]), EINVAL);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(PostSend, OpcodesThatAQueuePairLacksAreRefused) {
  use(IBV_QPT_UC);
  auto chain = send_chain(1, 0);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    chain[0].opcode = opcode;
    EXPECT_EQ(post(chain[0]), EINVAL) << opcode;
  }
  chain[0].opcode = IBV_WR_TSO;
  EXPECT_EQ(post(chain[0]), EOPNOTSUPP);
  chain[0].opcode = IBV_WR_BIND_MW;  // of no window
  EXPECT_EQ(post(chain[0]), EINVAL);
  chain[0].opcode = IBV_WR_DRIVER1;
  EXPECT_EQ(post(chain[0]), EINVAL);
  chain[0].opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(post(chain[0]), 0);
}

TEST_F(PostSend, StateDecides) {
  auto chain = send_chain(1, 0);
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR}) {
    move(qp_, state);
    bad_ = nullptr;
    EXPECT_EQ(post(chain[0]), EINVAL) << state;
    EXPECT_EQ(bad_, chain.data());
  }
  for (const ibv_qp_state state : {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR}) {
    move(qp_, state);
    EXPECT_EQ(post(chain[0]), 0) << state;
  }
}

TEST_F(PostSend, ChainStopsAtTheFirstMistake) {
  ibv_sge entries[5] = {};
  auto chain = send_chain(3, 0);
  chain[1].sg_list = entries;
  chain[1].num_sge = 5;  // max_send_sge is 4
  EXPECT_EQ(post(chain[0]), EINVAL);
  EXPECT_EQ(bad_, &chain[1]);
  EXPECT_EQ(std::popcount(session().handed_over()), 1);  // the one before it went out
  chain[1].num_sge = -1;
  EXPECT_EQ(post(chain[1]), EINVAL);
}

TEST_F(PostSend, FullQueueTakesMoreAfterItsCompletions) {
  auto chain = send_chain(9, 50);
  EXPECT_EQ(post(chain[0]), ENOMEM);  // max_send_wr is 8
  EXPECT_EQ(bad_, &chain[8]);
  auto one = send_chain(1, 90);
  EXPECT_EQ(post(one[0]), ENOMEM);
  complete(cq_, qp_, 2);  // covers 0 and 1 as well
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  EXPECT_EQ(wc.wr_id, 52u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(post(one[0]), 0) << i;
  }
  EXPECT_EQ(post(one[0]), ENOMEM);
  EXPECT_EQ(fake(qp_).command(10).sequence, 10u);
}

TEST_F(PostSend, LongChainRingsOneDoorbell) {
  auto chain = send_chain(5, 0);
  ASSERT_EQ(post(chain[0]), 0);
  EXPECT_EQ(session().handed_over(), 0u);
  ASSERT_EQ(session().header().doorbell_producer.load(), 1u);
  EXPECT_EQ(abi::qpn_of(session().doorbell(0)), qp_->qp_num);
  EXPECT_EQ(abi::cause_of(session().doorbell(0)), abi::DoorbellCause::kChain);
  EXPECT_EQ(session().doorbell(0).sequence, 5u);
}

TEST_F(PostSend, ShortChainTakesOneVcbPerCommandInOrder) {
  auto chain = send_chain(4, 0);
  ASSERT_EQ(post(chain[0]), 0);
  std::uint64_t handed = session().handed_over();
  ASSERT_EQ(std::popcount(handed), 4);
  std::set<std::uint32_t> sequences;
  for (; handed != 0; handed &= handed - 1)
    sequences.insert(vcb_header(static_cast<unsigned>(std::countr_zero(handed))).sequence);
  EXPECT_EQ(sequences, (std::set<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(session().header().doorbell_producer.load(), 0u);
}

// The engine looks at VCBs in rotation: 6, 7, 0, 1, not 0, 1, 6, 7.
TEST_F(PostSend, ChainThatGoesOnAtTheFirstVcbKeepsItsOrder) {
  auto chain = send_chain(3, 0);
  for (unsigned i = 0; i < 2; ++i) {
    ASSERT_EQ(post(chain[0]), 0);
    chain = send_chain(3, 0);
  }
  ASSERT_EQ(session().handed_over(), 0x3fu);
  session().release_vcbs(0x3f);
  complete(cq_, qp_, 5);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  chain = send_chain(4, 0);
  ASSERT_EQ(post(chain[0]), 0);
  ASSERT_EQ(session().handed_over(), 0xc3u);
  EXPECT_EQ(vcb_header(6).sequence, 6u);
  EXPECT_EQ(vcb_header(7).sequence, 7u);
  EXPECT_EQ(vcb_header(0).sequence, 8u);
  EXPECT_EQ(vcb_header(1).sequence, 9u);
}

TEST_F(PostSend, WithoutAFreeVcbADoorbellServes) {
  auto chain = send_chain(4, 0);
  ASSERT_EQ(post(chain[0]), 0);
  chain = send_chain(3, 0);
  ASSERT_EQ(post(chain[0]), 0);
  chain = send_chain(1, 0);
  ASSERT_EQ(post(chain[0]), 0);  // the eighth of 8 VCBs
  EXPECT_EQ(session().handed_over(), 0xffu);
  complete(cq_, qp_, 7);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  ASSERT_EQ(post(chain[0]), 0);
  ASSERT_EQ(session().header().doorbell_producer.load(), 1u);
  EXPECT_EQ(session().doorbell(0).sequence, 9u);
  EXPECT_EQ(abi::cause_of(session().doorbell(0)), abi::DoorbellCause::kNoVcb);

  session().release_vcbs(0x10);
  complete(cq_, qp_, 8);
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  ASSERT_EQ(post(chain[0]), 0);
  EXPECT_EQ(session().handed_over(), 0xffu);
  EXPECT_EQ(vcb_header(4).sequence, 9u);
  chain = send_chain(2, 0);
  session().release_vcbs(0x1);
  ASSERT_EQ(post(chain[0]), 0);  // two commands, one VCB
  EXPECT_EQ(session().header().doorbell_producer.load(), 2u);
  EXPECT_EQ(session().handed_over(), 0xfeu);
}

// The engine takes a command in a VCB only in its turn (B3): it fetches those of the doorbell
// first.
TEST_F(PostSend, VcbsAreNotUsedBeforeTheCommandsOfADoorbellCompleted) {
  auto chain = send_chain(5, 0);
  auto one = send_chain(1, 0);
  ASSERT_EQ(post(chain[0]), 0);
  ASSERT_EQ(post(one[0]), 0);
  EXPECT_EQ(session().handed_over(), 0u);
  ASSERT_EQ(session().header().doorbell_producer.load(), 2u);
  EXPECT_EQ(session().doorbell(1).sequence, 6u);
  EXPECT_EQ(abi::cause_of(session().doorbell(1)), abi::DoorbellCause::kOther);

  ibv_wc wc;
  complete(cq_, qp_, 4);  // the last is not complete
  ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  ASSERT_EQ(post(one[0]), 0);
  ASSERT_EQ(session().header().doorbell_producer.load(), 3u);
  complete(cq_, qp_, 6);
  ASSERT_EQ(post(one[0]), 0);  // not polled
  ASSERT_EQ(session().header().doorbell_producer.load(), 4u);
  complete(cq_, qp_, 7);
  while (ibv_poll_cq(cq_, 1, &wc) == 1) {
  }
  ASSERT_EQ(post(one[0]), 0);
  EXPECT_EQ(session().header().doorbell_producer.load(), 4u);
  EXPECT_EQ(session().handed_over(), 1u);
}

TEST_F(PostSend, VcbsThatTheProcessGetsLaterAreTriedAtOnce) {
  session().header().granted.store(0xf);
  auto chain = send_chain(4, 0);
  auto one = send_chain(1, 0);
  ASSERT_EQ(post(chain[0]), 0);
  ASSERT_EQ(post(one[0]), 0);  // finds no VCB
  session().release_vcbs(0xf);
  ASSERT_EQ(post(one[0]), 0);
  EXPECT_EQ(session().handed_over(), 0u);
  ASSERT_EQ(session().header().doorbell_producer.load(), 2u);
  EXPECT_EQ(abi::cause_of(session().doorbell(1)), abi::DoorbellCause::kNoVcb) << "it wants more";
  session().header().granted.store(0xff);
  ASSERT_EQ(post(one[0]), 0);
  EXPECT_EQ(session().header().doorbell_producer.load(), 2u);
  EXPECT_EQ(std::popcount(session().handed_over()), 1);
}

TEST_F(PostSend, VcbsAreUsedInTurn) {
  auto one = send_chain(1, 0);
  for (unsigned i = 0; i < 20; ++i) {
    ASSERT_EQ(post(one[0]), 0);
    EXPECT_EQ(session().handed_over(), 1u << i % 8);
    session().release_vcbs(session().handed_over());
    complete(cq_, qp_, i);
    ibv_wc wc;
    ASSERT_EQ(ibv_poll_cq(cq_, 1, &wc), 1);
  }
}

TEST_F(PostSend, SessionWithoutVcbsWorksByDoorbells) {
  daemon().set_vcbs(0);
  ibv_context* other = world_->open();
  ASSERT_NE(other, nullptr);
  ibv_pd* pd = ibv_alloc_pd(other);
  ibv_cq* cq = ibv_create_cq(other, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  move(qp, IBV_QPS_RTS);
  auto one = send_chain(1, 0);
  ASSERT_EQ(ibv_post_send(qp, one.data(), &bad_), 0);
  EXPECT_EQ(session().header().doorbell_producer.load(), 1u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(PostSend, ParkedEngineIsWoken) {
  auto one = send_chain(1, 0);
  ASSERT_EQ(post(one[0]), 0);
  EXPECT_EQ(session().wakes(), 0u);
  session().header().parked.store(1);
  ASSERT_EQ(post(one[0]), 0);
  EXPECT_EQ(session().wakes(), 1u);
  auto chain = send_chain(5, 0);
  ASSERT_EQ(post(chain[0]), 0);
  EXPECT_EQ(session().wakes(), 1u);
}

TEST_F(PostSend, FullDoorbellRingIsWaitedFor) {
  auto chain = send_chain(5, 0);
  session().header().doorbell_producer.store(300);
  session().header().doorbell_consumer.store(300 - abi::kDoorbellEntries);
  std::thread engine([&] {
    while (session().wakes() == 0) std::this_thread::yield();
    session().header().doorbell_consumer.fetch_add(1);
  });
  session().header().parked.store(1);
  EXPECT_EQ(post(chain[0]), 0);
  engine.join();
  EXPECT_EQ(session().header().doorbell_producer.load(), 301u);
  EXPECT_EQ(session().doorbell(300).sequence, 5u);
}

TEST_F(PostSend, SignalAllSignalsAll) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  move(qp, IBV_QPS_RTS);
  auto one = send_chain(1, 0, 0);
  ASSERT_EQ(ibv_post_send(qp, one.data(), &bad_), 0);
  EXPECT_EQ(fake(qp).command(0).flags, abi::kCommandSignaled);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

/// Threads post on queue pairs of their own; an engine takes VCBs and doorbells. Every command
/// must arrive whole, and none twice by VCB.
TEST_F(PostSend, ThreadsShareTheVcbs) {
  constexpr int kThreads = 4;
  constexpr std::uint32_t kPosts = 5000;
  struct Poster {
    ibv_cq* cq;
    ibv_qp* qp;
    std::uint32_t announced = 0;  ///< by doorbell, up to here
    std::vector<bool> by_vcb = std::vector<bool>(kPosts);
    bool arrived(std::uint32_t sequence) const { return sequence < announced || by_vcb[sequence]; }
  };
  std::vector<Poster> posters;
  for (int i = 0; i < kThreads; ++i) {
    ibv_cq* cq = make_cq();
    posters.push_back({cq, make_qp(cq)});
    move(posters.back().qp, IBV_QPS_RTS);
  }
  FakeSession& fakes = session();
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> finished[kThreads] = {};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto one = send_chain(1, 0, 0);
      ibv_send_wr* bad = nullptr;
      ibv_wc wc;
      for (std::uint32_t i = 0; i < kPosts;) {
        one[0].wr_id = i;
        one[0].imm_data = i * 2654435761u;
        const int error = ibv_post_send(posters[static_cast<std::size_t>(t)].qp, one.data(), &bad);
        if (error == 0)
          ++i;
        else
          while (ibv_poll_cq(posters[static_cast<std::size_t>(t)].cq, 1, &wc) == 0) continue;
      }
      --running;
    });
  }
  const auto poster_of = [&](std::uint32_t qpn) -> Poster& {
    for (Poster& poster : posters)
      if (poster.qp->qp_num == qpn) return poster;
    ADD_FAILURE() << "queue pair " << qpn;
    return posters[0];
  };
  std::uint32_t doorbells = 0;
  const auto engine_step = [&] {
    const std::uint64_t handed = fakes.handed_over();
    for (std::uint64_t left = handed; left != 0; left &= left - 1) {
      abi::VcbPage& page = fakes.vcb(static_cast<unsigned>(std::countr_zero(left)));
      ASSERT_EQ(page.scoreboard.load(std::memory_order_acquire), abi::kAllSegments);
      abi::CommandHeader header;
      std::memcpy(&header, page.command, sizeof header);
      ASSERT_EQ(header.imm, header.sequence * 2654435761u);
      Poster& poster = poster_of(header.qpn);
      ASSERT_LT(header.sequence, kPosts);
      ASSERT_FALSE(poster.by_vcb[header.sequence]);
      poster.by_vcb[header.sequence] = true;
    }
    fakes.release_vcbs(handed);
    for (; doorbells != fakes.header().doorbell_producer.load(); ++doorbells) {
      const abi::Doorbell bell = fakes.doorbell(doorbells);
      Poster& poster = poster_of(abi::qpn_of(bell));
      for (std::uint32_t s = poster.announced; s < bell.sequence; ++s)
        if (!poster.arrived(s)) {
          ASSERT_EQ(fakes.qps.at(abi::qpn_of(bell)).command(s).sequence, s);
        }
      poster.announced = std::max(poster.announced, bell.sequence);
      fakes.header().doorbell_consumer.store(doorbells + 1);
    }
    for (Poster& poster : posters) {
      // Completes what has arrived without a gap, the last one only, as unsignalled sends do.
      const auto at = static_cast<std::size_t>(&poster - posters.data());
      const std::uint32_t first = finished[at].load();
      std::uint32_t end = first;
      while (end < kPosts && poster.arrived(end)) ++end;
      if (end == first) continue;
      finished[at].store(end);
      abi::CompletionElement element{};
      element.qpn = poster.qp->qp_num;
      element.index = end - 1;
      fakes.cqs.at(poster.cq->handle).push(&element);
    }
  };
  while (running.load() != 0 && !HasFatalFailure()) engine_step();
  for (std::thread& thread : threads) thread.join();
  engine_step();
  for (Poster& poster : posters) {
    for (std::uint32_t s = 0; s < kPosts; ++s) {
      EXPECT_TRUE(poster.arrived(s)) << s;
    }
    EXPECT_EQ(ibv_destroy_qp(poster.qp), 0);
    EXPECT_EQ(ibv_destroy_cq(poster.cq), 0);
  }
}

}  // namespace
}  // namespace softhca::provider::test
