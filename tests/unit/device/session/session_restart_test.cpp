// SPDX-License-Identifier: Apache-2.0

// Sessions of an adapter that has gone: the next adapter has all their objects, by the same
// handles, numbers and keys, in the same memory.
#include "tests/unit/device/session/session_restart.hpp"

#include <sys/mman.h>

#include <cstddef>

namespace softhca::control {
namespace {

TEST_F(SessionRestart, SessionIsTheSame_ByNumberLevelAndVcbs) {
  connect();
  const auto before = first().session().object_counts();
  restart();
  const auto after = first().session().object_counts();
  EXPECT_EQ(after.id, before.id);
  EXPECT_EQ(after.vcbs, before.vcbs);
  EXPECT_TRUE(first().session().greeted());
  EXPECT_NE(first().vcb_holder().session, nullptr) << "the engine reads its memory";
  EXPECT_EQ(end(first(), Operation::kQueryDevice, 0), 0);
  connect();
  EXPECT_GT(second().session().object_counts().id, before.id);
  expect_nothing_is_left();
}

TEST_F(SessionRestart, DomainsAndRegionsKeepTheirHandlesAndKeys) {
  Client& client = connect();
  const auto gap = made(client, Operation::kAllocPd, abi::HandleBody{});
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{});
  const auto other = made(client, Operation::kAllocPd, abi::HandleBody{});
  ASSERT_EQ(end(client, Operation::kDeallocPd, gap.handle), 0);
  // Memory that is shared, memory that is not, and none.
  const auto shared = made<abi::AllocSharedReply>(client, Operation::kAllocShared,
                                                  abi::AllocSharedRequest{4 * abi::kPageBytes});
  void* const at = ::mmap(nullptr, 4 * abi::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                          client.last_kept(), 0);
  ASSERT_NE(at, MAP_FAILED);
  const auto addr = reinterpret_cast<std::uintptr_t>(at);
  struct {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  } request{{addr, 4 * abi::kPageBytes, addr, memory::kLocalWrite, pd.handle, 1, 0},
            {addr, 4 * abi::kPageBytes, 0, shared.handle, 1}};
  const auto mapped = made<abi::RegisterMrReply>(client, Operation::kRegisterMr, request);
  static char unshared[100] = "unshared";
  const auto there = reinterpret_cast<std::uintptr_t>(unshared);
  request = {{there, 100, there, memory::kLocalWrite, pd.handle, 1, 0}, {there, 100, 0, 0, 0}};
  const auto reached = made<abi::RegisterMrReply>(client, Operation::kRegisterMr, request);
  const auto null =
      made<abi::RegisterMrReply>(client, Operation::kAllocNullMr, abi::HandleBody{pd.handle, 0});
  const struct {
    std::uint32_t handle, flags;
    abi::RegisterMrRequest region;
  } moved{mapped.handle, kChangePd, {.pd = other.handle}};
  made<abi::RegisterMrReply>(client, Operation::kReregisterMr, moved);
  const auto window = made<abi::AllocWindowReply>(client, Operation::kAllocWindow,
                                                  abi::AllocWindowRequest{pd.handle, 1});
  const auto in_use = life->all_in_use();

  for (int times = 0; times < 2; ++times) {
    restart();
    EXPECT_EQ(life->all_in_use(), in_use);
    EXPECT_EQ(end(first(), Operation::kImportPd, pd.handle), 0);
    EXPECT_EQ(end(first(), Operation::kImportPd, gap.handle), EINVAL);
    for (const auto& mr : {mapped, reached, null}) {
      const auto found =
          made<abi::ImportMrReply>(first(), Operation::kImportMr, abi::HandleBody{mr.handle, 0});
      EXPECT_EQ(found.lkey, mr.lkey);
      EXPECT_EQ(found.rkey, mr.rkey);
    }
    std::strcpy(static_cast<char*>(at) + 5000, times == 0 ? "first" : "again");
    EXPECT_EQ(read(mapped.lkey, 5000, 5), times == 0 ? "first" : "again");
    EXPECT_EQ(read(reached.lkey, 0, 8), "unshared");
  }
  EXPECT_EQ(end(first(), Operation::kDeallocPd, pd.handle), EBUSY);
  EXPECT_EQ(end(first(), Operation::kDeallocPd, other.handle), EBUSY) << "of a region by now";
  for (const auto& mr : {mapped, reached, null})
    EXPECT_EQ(end(first(), Operation::kDeregisterMr, mr.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDeallocWindow, window.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDeallocPd, pd.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDeallocPd, other.handle), 0);
  const auto fresh = made<abi::AllocSharedReply>(first(), Operation::kAllocShared,
                                                 abi::AllocSharedRequest{abi::kPageBytes});
  EXPECT_GT(fresh.handle, shared.handle) << "the process may still name the earlier one";
  ::munmap(at, 4 * abi::kPageBytes);
  expect_nothing_is_left();
}

TEST_F(SessionRestart, QueuesHaveTheSameRingsAndTheirSettings) {
  Client& client = connect();
  const auto channel = made(client, Operation::kCreateChannel, abi::HandleBody{});
  const auto cq = made<abi::CreateCqReply>(client, Operation::kCreateCq,
                                           abi::CreateCqRequest{5, 100, channel.handle});
  const auto resized = made_in_sealed<abi::CreateCqReply>(client, Operation::kResizeCq,
                                                          abi::ResizeCqRequest{cq.handle, 200});
  EXPECT_EQ(client.ask(Operation::kModifyCq, abi::ModifyCqRequest{cq.handle, 8, 100}), 0);
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{});
  const auto srq = made<abi::CreateSrqReply>(client, Operation::kCreateSrq,
                                             abi::CreateSrqRequest{6, pd.handle, 30, 2, 5});
  EXPECT_EQ(client.ask(Operation::kModifySrq, abi::ModifySrqRequest{srq.handle, 9}), 0);
  const auto larger = made_in_sealed<abi::CreateSrqReply>(
      client, Operation::kResizeSrq, abi::ResizeSrqRequest{srq.handle, 100, 0, 0});
  const std::uint32_t limit =
      made<abi::QuerySrqReply>(client, Operation::kQuerySrq, abi::HandleBody{srq.handle, 0}).limit;
  const auto rc = made<abi::CreateQpReply>(client, Operation::kCreateQp,
                                           qp_request(kReliable, pd.handle, cq.handle));
  auto with_srq = qp_request(kReliable, pd.handle, cq.handle);
  with_srq.srq = srq.handle;
  const auto of_srq = made<abi::CreateQpReply>(client, Operation::kCreateQp, with_srq);
  const auto in_use = life->all_in_use();

  for (int times = 0; times < 2; ++times) {
    restart();
    EXPECT_EQ(life->all_in_use(), in_use);
    const auto asked =
        made<abi::QuerySrqReply>(first(), Operation::kQuerySrq, abi::HandleBody{srq.handle, 0});
    EXPECT_EQ(asked.max_wr, 100u);
    EXPECT_EQ(asked.limit, limit);
    const auto look_at_cq = [&](std::uint32_t qpn) {
      std::uint32_t entries = 0;
      life->daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
        const engine::QueuePair* const qp = engine.durable().queue_pairs.find(Qpn(qpn));
        ASSERT_NE(qp, nullptr);
        entries = qp->sq.cq->ring.entries();
        EXPECT_EQ(qp->sq.cq->moderation_count, 8u);
        EXPECT_EQ(qp->sq.cq->user_handle, 5u);
        EXPECT_GE(qp->sq.cq->completion_end, 0);
      }});
      return entries;
    };
    EXPECT_EQ(look_at_cq(rc.qpn), 256u);
    EXPECT_EQ(look_at_cq(of_srq.qpn), 256u);
    EXPECT_EQ(end(first(), Operation::kDestroySrq, srq.handle), EBUSY);
    EXPECT_EQ(end(first(), Operation::kDestroyCq, cq.handle), EBUSY);
  }
  // New rings are where no ring of before is.
  const auto other = made<abi::CreateCqReply>(first(), Operation::kCreateCq,
                                              abi::CreateCqRequest{9, 100, abi::kNoHandle});
  for (const abi::RingLocation& ring :
       {resized.ring, larger.ring, rc.send_ring, rc.receive_ring, of_srq.send_ring}) {
    const bool apart = ring.segment != other.ring.segment ||
                       ring.offset + ring.bytes <= other.ring.offset ||
                       other.ring.offset + other.ring.bytes <= ring.offset;
    EXPECT_TRUE(apart);
  }
  for (const std::uint32_t qpn : {rc.qpn, of_srq.qpn})
    EXPECT_EQ(first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{qpn, 0}), 0);
  EXPECT_EQ(end(first(), Operation::kDestroySrq, srq.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDestroyCq, cq.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDestroyCq, other.handle), 0);
  expect_nothing_is_left();
}

TEST_F(SessionRestart, QueuePairsKeepTheirNumbersAttributesAndGroups) {
  Client& client = connect();
  const MadeQp rc = make_qp(client, kReliable);
  const auto ud =
      made<abi::CreateQpReply>(client, Operation::kCreateQp, qp_request(kDatagram, rc.pd, rc.cq));
  abi::QpAttributes a{};
  a.port_num = 1;
  a.access_flags = 7;
  ASSERT_EQ(modify(client, rc.qpn, 1, attr::kPkeyIndex | attr::kPort | attr::kAccessFlags, a), 0);
  a.av = to_itself();
  a.path_mtu = 3;
  a.dest_qp_num = rc.qpn;
  a.rq_psn = 77;
  a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = 12;
  ASSERT_EQ(modify(client, rc.qpn, 2, kToReceive, a), 0) << client.why();
  a.qkey = 0x11111111;
  ASSERT_EQ(modify(client, ud.qpn, 1, attr::kPkeyIndex | attr::kPort | attr::kQkey, a), 0);
  abi::MulticastRequest group{ud.qpn, 0, {}};
  std::memcpy(group.group, kJoined.bytes.data(), sizeof group.group);
  ASSERT_EQ(client.ask(Operation::kAttachMulticast, group), 0) << client.why();
  const auto ah = made(client, Operation::kCreateAh, abi::CreateAhRequest{rc.pd, 0, to_itself()});
  const abi::QpAttributes rc_before = query(client, rc.qpn), ud_before = query(client, ud.qpn);
  const auto in_use = life->all_in_use();

  for (int times = 0; times < 2; ++times) {
    restart();
    EXPECT_EQ(life->all_in_use(), in_use);
    EXPECT_TRUE(are_equal(query(first(), rc.qpn), rc_before));
    EXPECT_TRUE(are_equal(query(first(), ud.qpn), ud_before));
    EXPECT_EQ(first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{ud.qpn, 0}), EBUSY)
        << "a member of a group";
    EXPECT_EQ(end(first(), Operation::kDeallocPd, rc.pd), EBUSY);
  }
  EXPECT_EQ(first().ask(Operation::kDetachMulticast, group), 0);
  restart();
  EXPECT_EQ(first().ask(Operation::kDetachMulticast, group), EINVAL) << "it has left";
  const auto later =
      made(first(), Operation::kCreateAh, abi::CreateAhRequest{rc.pd, 0, to_itself()});
  EXPECT_NE(later.handle, ah.handle);
  EXPECT_EQ(end(first(), Operation::kDestroyAh, ah.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDestroyAh, later.handle), 0);
  for (const std::uint32_t qpn : {rc.qpn, ud.qpn})
    EXPECT_EQ(first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{qpn, 0}), 0);
  EXPECT_EQ(end(first(), Operation::kDestroyCq, rc.cq), 0);
  EXPECT_EQ(end(first(), Operation::kDeallocPd, rc.pd), 0);
  expect_nothing_is_left();
}

TEST_F(SessionRestart, TermsOfAQueuePair_StayInForce) {
  Client& client = connect();
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{});
  const auto cq = made<abi::CreateCqReply>(client, Operation::kCreateCq,
                                           abi::CreateCqRequest{5, 100, abi::kNoHandle});
  auto request = qp_request(kReliable, pd.handle, cq.handle);
  request.srq = made<abi::CreateSrqReply>(client, Operation::kCreateSrq,
                                          abi::CreateSrqRequest{6, pd.handle, 30, 2, 0})
                    .handle;
  const std::uint32_t qpn = made<abi::CreateQpReply>(client, Operation::kCreateQp, request).qpn;
  const std::uint32_t plain = made<abi::CreateQpReply>(client, Operation::kCreateQp, request).qpn;
  const SentLimits sent{{1000, 2000, 30, 40}, 500};
  const InboundLimits inbound{{5000, 6000, 70, 80}};
  const ServedLimits served{{9000, 10000, 110, 120}};
  const auto reserve = [&] { EXPECT_TRUE(life->records.reserve()); };
  reserve();
  first().session().queue_pairs().set_rates(qpn, sent, inbound, served);
  reserve();
  EXPECT_EQ(first().session().queue_pairs().set_receive_terms(qpn, {.limit = 7, .importance = 6}),
            0);
  reserve();
  EXPECT_EQ(first().session().queue_pairs().set_receive_terms(plain, {.limit = 9}), 0);
  reserve();
  EXPECT_EQ(first().session().queue_pairs().set_receive_terms(
                plain, {.limit = receive::Member::kByPolicy}),
            0);
  for (int times = 0; times < 2; ++times) {
    restart();
    life->daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      const engine::QueuePair& qp = *engine.durable().queue_pairs.find(Qpn(qpn));
      ASSERT_NE(qp.sq.rates, nullptr);
      EXPECT_EQ(qp.sq.rates->sent.limits(), sent);
      EXPECT_EQ(qp.sq.rates->peers.inbound.limits(), inbound);
      EXPECT_EQ(qp.sq.rates->peers.served.limits(), served);
      EXPECT_EQ(engine.cpu().minimums().of_queue_pair(qp.slot).per_second, 500u);
      EXPECT_EQ(qp.rq.member.limit, 7u);
      EXPECT_EQ(qp.rq.member.own_importance, 6u);
      const engine::QueuePair& other = *engine.durable().queue_pairs.find(Qpn(plain));
      EXPECT_EQ(other.sq.rates, nullptr);
      EXPECT_EQ(other.rq.member.limit, receive::Member::kByPolicy);
    }});
  }
}

TEST_F(SessionRestart, RequestThatTheEarlierAdapterHasDone_IsAnsweredAsDone) {
  Client& client = connect();
  const MadeQp qp = make_qp(client, kDatagram);
  abi::QpAttributes a{};
  a.port_num = 1;
  a.qkey = 0x11111111;
  const std::uint32_t mask = attr::kPkeyIndex | attr::kPort | attr::kQkey;
  ASSERT_EQ(modify(client, qp.qpn, 1, mask, a), 0);
  const std::function<int()> repeated[] = {
      [&] { return modify(first(), qp.qpn, 2, 0); },
      [&] {
        return first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{qp.qpn, 0});
      },
      [&] { return end(first(), Operation::kDestroyCq, qp.cq); },
      [&] { return end(first(), Operation::kDeallocPd, qp.pd); },
  };
  for (const auto& ask : repeated) {
    EXPECT_EQ(ask(), 0);
    restart();
    SessionRestorer(first().restored()).expect_repetition();
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(ask(), EINVAL) << "the next one is not a repetition";
  }
  expect_nothing_is_left();
}

/// As after a crash between the record of the attributes and the engine's change of the state.
TEST_F(SessionRestart, AttributesThatTheEngineHasNotTaken_AreTakenByTheRepetition) {
  Client& client = connect();
  const std::uint32_t qpn = make_qp(client, kReliable).qpn;
  abi::QpAttributes a{};
  a.port_num = 1;
  ASSERT_EQ(modify(client, qpn, 1, attr::kPkeyIndex | attr::kPort | attr::kAccessFlags, a), 0);
  a.av = to_itself();
  a.path_mtu = 3;
  a.dest_qp_num = qpn;
  a.rq_psn = 77;
  const auto become_ready = [&] { return modify(first(), qpn, 2, kToReceive, a); };
  const std::vector<std::byte> before(engine_memory().begin(), engine_memory().end());
  ASSERT_EQ(become_ready(), 0) << client.why();
  restart([&] { std::ranges::copy(before, engine_memory().begin()); });
  EXPECT_EQ(query(first(), qpn).qp_state, 1u) << "INIT";
  SessionRestorer(first().restored()).expect_repetition();
  EXPECT_EQ(become_ready(), 0);
  EXPECT_EQ(query(first(), qpn).qp_state, 2u) << "RTR";
  // As after a crash before the answer: the engine has the path as well.
  restart();
  SessionRestorer(first().restored()).expect_repetition();
  EXPECT_EQ(become_ready(), 0);
  const abi::QpAttributes is = query(first(), qpn);
  EXPECT_EQ(is.qp_state, 2u);
  EXPECT_EQ(is.dest_qp_num, qpn);
  EXPECT_EQ(is.path_mtu, 3u);
}

/// As after crashes while a completion queue moves to another ring.
TEST_F(SessionRestart, ResizedCompletionQueue_IsWhereItsEngineHasMovedIt) {
  Client& client = connect();
  const auto cq = made<abi::CreateCqReply>(client, Operation::kCreateCq,
                                           abi::CreateCqRequest{5, 100, abi::kNoHandle});
  const abi::ResizeCqRequest larger{cq.handle, 300};
  made_in_sealed<abi::CreateCqReply>(client, Operation::kResizeCq, larger);  // room for it
  const auto ring = made<abi::CreateCqReply>(client, Operation::kResizeCq, larger).ring;
  const auto resized = [&] {
    SessionRestorer(first().restored()).expect_repetition();
    return made<abi::CreateCqReply>(first(), Operation::kResizeCq, larger).ring;
  };
  const auto are_same = [](const abi::RingLocation& a, const abi::RingLocation& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  };
  restart();
  first().repeat_tag();
  EXPECT_TRUE(are_same(ring, resized())) << "the earlier adapter has done it";
  restart([&] { forget_move(ring.offset + offsetof(abi::CompletionRingHeader, moved_by)); });
  first().repeat_tag();
  const abi::RingLocation again = resized();
  EXPECT_FALSE(are_same(ring, again)) << "it moves once more";
  restart();
  EXPECT_FALSE(are_same(again, resized())) << "another request";
  EXPECT_EQ(end(first(), Operation::kDestroyCq, cq.handle), 0);
  expect_nothing_is_left();
}

/// As after crashes while a shared receive queue moves to another ring.
TEST_F(SessionRestart, ResizedSharedReceiveQueue_IsWhereItsEngineHasMovedIt) {
  Client& client = connect();
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{});
  const auto srq = made<abi::CreateSrqReply>(client, Operation::kCreateSrq,
                                             abi::CreateSrqRequest{6, pd.handle, 30, 2, 0});
  const abi::ResizeSrqRequest larger{srq.handle, 100, 0, 0};
  const auto ring = made_in_sealed<abi::CreateSrqReply>(client, Operation::kResizeSrq, larger).ring;
  const record::RetiredReceiveRing retired{srq.ring, 30, 0};
  const auto max_wr = [&] {
    return made<abi::QuerySrqReply>(first(), Operation::kQuerySrq, abi::HandleBody{srq.handle, 0})
        .max_wr;
  };
  restart([&] { replace_end(records::Kind::kSharedReceiveQueue, retired); });
  EXPECT_EQ(max_wr(), 100u) << "the engine had moved it";
  EXPECT_EQ(life->in_use(Kind::kQueueBytes),
            ring.bytes + srq.ring.bytes + receive::Provisioner::bytes_for(128));
  restart([&] {
    replace_end(records::Kind::kSharedReceiveQueue, retired);
    forget_move(ring.offset + ring.bytes - sizeof(abi::ReceiveRingTail) +
                offsetof(abi::ReceiveRingTail, moved));
  });
  EXPECT_EQ(max_wr(), 30u) << "it is in its old ring";
  const auto again =
      made_in_sealed<abi::CreateSrqReply>(first(), Operation::kResizeSrq, larger).ring;
  EXPECT_NE(std::memcmp(&again, &ring, sizeof ring), 0) << "that place is free after the move";
  EXPECT_EQ(life->in_use(Kind::kQueueBytes), ring.bytes + receive::Provisioner::bytes_for(128));
  restart();
  EXPECT_EQ(max_wr(), 100u);
  EXPECT_EQ(end(first(), Operation::kDestroySrq, srq.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDeallocPd, pd.handle), 0);
  expect_nothing_is_left();
}

/// The record of an object keeps its place when the object moves to memory that was made later.
TEST_F(SessionRestart, ObjectsThatMovedToLaterMemory_FindIt) {
  Client& client = connect();
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{});
  const auto cq = made<abi::CreateCqReply>(client, Operation::kCreateCq,
                                           abi::CreateCqRequest{5, 100, abi::kNoHandle});
  const auto srq = made<abi::CreateSrqReply>(client, Operation::kCreateSrq,
                                             abi::CreateSrqRequest{6, pd.handle, 30, 2, 0});
  static char unshared[abi::kPageBytes];
  const auto there = reinterpret_cast<std::uintptr_t>(unshared);
  struct {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  } request{{there, 100, there, memory::kLocalWrite, pd.handle, 1, 0}, {there, 100, 0, 0, 0}};
  const auto mr = made<abi::RegisterMrReply>(client, Operation::kRegisterMr, request);

  const auto resized = made_in_sealed<abi::CreateCqReply>(client, Operation::kResizeCq,
                                                          abi::ResizeCqRequest{cq.handle, 60'000});
  EXPECT_NE(resized.ring.segment, cq.ring.segment);
  const auto larger = made_in_sealed<abi::CreateSrqReply>(
      client, Operation::kResizeSrq, abi::ResizeSrqRequest{srq.handle, 16'000, 0, 0});
  EXPECT_NE(larger.ring.segment, srq.ring.segment);
  const auto later = made(client, Operation::kAllocPd, abi::HandleBody{});
  const auto shared = made<abi::AllocSharedReply>(client, Operation::kAllocShared,
                                                  abi::AllocSharedRequest{abi::kPageBytes});
  char* const at = static_cast<char*>(
      ::mmap(nullptr, abi::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, client.last_kept(), 0));
  ASSERT_NE(at, MAP_FAILED);
  const auto addr = reinterpret_cast<std::uintptr_t>(at);
  struct {
    std::uint32_t handle, flags;
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  } moved{mr.handle,
          kChangePd | kChangeTranslation,
          {addr, abi::kPageBytes, addr, 0, later.handle, 1, 0},
          {addr, abi::kPageBytes, 0, shared.handle, 1}};
  made<abi::RegisterMrReply>(client, Operation::kReregisterMr, moved);
  const auto in_use = life->all_in_use();

  for (int times = 0; times < 2; ++times) {
    restart();
    EXPECT_EQ(life->all_in_use(), in_use);
    std::strcpy(at, times == 0 ? "first" : "again");
    EXPECT_EQ(read(mr.lkey, 0, 5), times == 0 ? "first" : "again");
  }
  EXPECT_EQ(end(first(), Operation::kDestroyCq, cq.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDestroySrq, srq.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDeregisterMr, mr.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDeallocPd, later.handle), 0);
  EXPECT_EQ(end(first(), Operation::kDeallocPd, pd.handle), 0);
  ::munmap(at, abi::kPageBytes);
  expect_nothing_is_left();
}

/// A record that does not fit ends the session that it is of, and no other.
TEST_F(SessionRestart, SessionWithARecordThatDoesNotFit_EndsAlone) {
  expects_all_ = false;
  for (const auto kind : {records::Kind::kCompletionQueue, records::Kind::kSession}) {
    make_qp(connect(), kReliable);
    const auto fit = make_qp(connect(), kReliable);
    const KeptId connection = first().connection();
    restart([&] { at_rest_.change(kind, [](auto& body) { body.resize(body.size() - 1); }); });
    ASSERT_EQ(life->unfit.size(), 1u);
    EXPECT_EQ(life->unfit.front().connection, connection);
    EXPECT_EQ(query(second(), fit.qpn).qp_state, 0u);
    expect_nothing_is_left();
  }
}

/// The adapter may end when it has dropped the descriptor of a channel.
TEST_F(SessionRestart, RecordOfAChannelEndsBeforeItsDescriptor) {
  Client& client = connect();
  std::vector<std::byte> at_drop;
  keeper.dropped = [&] {
    const auto records = keeper.records();
    if (at_drop.empty()) at_drop.assign(records.begin(), records.end());
    life->keeping.retire();
  };
  // The process closes each; the adapter finds some of them closed.
  for (int i = 0; i < 40 && at_drop.empty(); ++i)
    (void)client.ask(Operation::kCreateChannel, abi::HandleBody{});
  keeper.dropped = nullptr;
  ASSERT_FALSE(at_drop.empty());
  restart([&] { std::ranges::copy(at_drop, keeper.records().begin()); });
}

class XrcSessionRestart : public SessionRestart {
 protected:
  XrcSessionRestart() {
    for (int i = 0; i < 2; ++i) {
      Client& client = connect();
      domains[i] = made(client, Operation::kOpenXrcDomain,
                        abi::OpenXrcDomainRequest{1, 5, abi::kXrcOfFile | abi::kXrcCreate, 0})
                       .handle;
    }
    target = made<abi::CreateQpReply>(
                 first(), Operation::kCreateQp,
                 abi::CreateQpRequest{.user_handle = 3, .type = kTarget, .xrc_domain = domains[0]})
                 .qpn;
    opened = made(second(), Operation::kOpenQp, abi::OpenQpRequest{4, domains[1], target}).handle;
  }

  std::uint32_t domains[2];
  std::uint32_t target = 0;
  std::uint32_t opened = 0;
};

TEST_F(XrcSessionRestart, DomainOfAFile_StaysShared_WithItsTargetAndQueues) {
  const auto pd = made(first(), Operation::kAllocPd, abi::HandleBody{});
  const auto cq = made<abi::CreateCqReply>(first(), Operation::kCreateCq,
                                           abi::CreateCqRequest{5, 100, abi::kNoHandle});
  const auto srq = made_in_sealed<abi::CreateSrqReply>(
      first(), Operation::kCreateSrq,
      abi::CreateXrcSrqRequest{{6, pd.handle, 30, 2, 0}, domains[0], cq.handle});
  const auto in_use = life->all_in_use();
  for (int times = 0; times < 2; ++times) {
    restart();
    EXPECT_EQ(life->all_in_use(), in_use);
    EXPECT_EQ(end(first(), Operation::kCloseXrcDomain, domains[0]), EBUSY);
    EXPECT_EQ(end(second(), Operation::kCloseXrcDomain, domains[1]), EBUSY);
    EXPECT_EQ(second().ask(Operation::kOpenXrcDomain,
                           abi::OpenXrcDomainRequest{
                               1, 5, abi::kXrcOfFile | abi::kXrcCreate | abi::kXrcExclusive, 0}),
              EINVAL)
        << "the file still has it";
    life->daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      const engine::QueuePair* const qp = engine.durable().queue_pairs.find(Qpn(target));
      ASSERT_NE(qp, nullptr);
      EXPECT_EQ(qp->user_handle, 3u);
    }});
  }
  EXPECT_EQ(end(first(), Operation::kDestroySrq, srq.handle), 0);
  EXPECT_EQ(first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{target, 0}), 0);
  EXPECT_EQ(end(second(), Operation::kCloseQp, opened), 0);
  expect_nothing_is_left();
}

TEST_F(XrcSessionRestart, TargetThatItsMakerHasLetGo_IsOfTheProcessThatOpenedIt) {
  EXPECT_EQ(first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{target, 0}), 0);
  for (const bool closes : {false, true}) {
    if (closes) {
      EXPECT_EQ(end(first(), Operation::kCloseXrcDomain, domains[0]), 0);
    }
    restart();
    EXPECT_EQ(first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{target, 0}), EINVAL);
    query(second(), target);
  }
  EXPECT_EQ(end(second(), Operation::kCloseQp, opened), 0);
  expect_nothing_is_left();
}

TEST_F(XrcSessionRestart, TargetWhoseMakerHasGone_IsOfTheProcessThatOpenedIt) {
  first().end();
  clients.erase(clients.begin());
  for (int times = 0; times < 2; ++times) {
    restart();
    query(first(), target);
    life->daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      const engine::QueuePair* const qp = engine.durable().queue_pairs.find(Qpn(target));
      ASSERT_NE(qp, nullptr);
      EXPECT_EQ(qp->user_handle, 4u);
    }});
  }
  EXPECT_EQ(end(first(), Operation::kCloseQp, opened), 0);
  EXPECT_EQ(first().ask(Operation::kQueryQp, abi::HandleBody{target, 0}), EINVAL);
  expect_nothing_is_left();
}

/// A device file that two processes have. The one that made the objects goes.
TEST_F(SessionRestart, FileOfAProcessThatHasGone_IsOfTheOtherOne) {
  Client& maker = connect();
  Client& joiner = connect();
  const auto token = made<abi::ContextToken>(maker, Operation::kShareContext, abi::HandleBody{});
  const auto pd = made(maker, Operation::kAllocPd, abi::HandleBody{});
  const auto shared = made<abi::AllocSharedReply>(maker, Operation::kAllocShared,
                                                  abi::AllocSharedRequest{abi::kPageBytes});
  char* const at = static_cast<char*>(
      ::mmap(nullptr, abi::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, maker.last_kept(), 0));
  ASSERT_NE(at, MAP_FAILED);
  const auto addr = reinterpret_cast<std::uintptr_t>(at);
  struct {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  } request{{addr, abi::kPageBytes, addr, memory::kLocalWrite, pd.handle, 1, 0},
            {addr, abi::kPageBytes, 0, shared.handle, 1}};
  const auto mapped = made<abi::RegisterMrReply>(maker, Operation::kRegisterMr, request);
  static char unshared[100] = "unshared";
  const auto there = reinterpret_cast<std::uintptr_t>(unshared);
  request = {{there, 100, there, memory::kLocalWrite, pd.handle, 1, 0}, {there, 100, 0, 0, 0}};
  const auto reached = made<abi::RegisterMrReply>(maker, Operation::kRegisterMr, request);
  ASSERT_EQ(joiner.ask(Operation::kJoinContext, token), 0);
  restart();
  EXPECT_EQ(read(reached.lkey, 0, 8), "unshared");
  first().end();
  clients.erase(clients.begin());
  for (int times = 0; times < 2; ++times) {
    restart();
    EXPECT_EQ(end(first(), Operation::kImportPd, pd.handle), 0);
    std::strcpy(at, times == 0 ? "first" : "again");
    EXPECT_EQ(read(mapped.lkey, 0, 5), times == 0 ? "first" : "again");
    EXPECT_EQ(read(reached.lkey, 0, 8), "refused") << "its process has gone";
  }
  const auto again = made<abi::ContextToken>(first(), Operation::kShareContext, abi::HandleBody{});
  EXPECT_EQ(std::memcmp(again.bytes, token.bytes, sizeof token.bytes), 0);
  ::munmap(at, abi::kPageBytes);
  expect_nothing_is_left();
}

TEST_F(SessionRestart, NamedMemory_IsFoundByItsToken) {
  Client& client = connect();
  connect();
  const auto shared = made<abi::AllocSharedReply>(client, Operation::kAllocShared,
                                                  abi::AllocSharedRequest{abi::kPageBytes});
  const auto token =
      made<abi::SharedToken>(client, Operation::kNameShared, abi::HandleBody{shared.handle, 0});
  restart();
  EXPECT_EQ(std::memcmp(made<abi::SharedToken>(first(), Operation::kNameShared,
                                               abi::HandleBody{shared.handle, 0})
                            .bytes,
                        token.bytes, sizeof token.bytes),
            0);
  made(second(), Operation::kJoinShared, token);
  EXPECT_EQ(end(first(), Operation::kFreeShared, shared.handle), 0);
  restart();
  EXPECT_EQ(second().ask(Operation::kJoinShared, token), EACCES) << "freed, and no region uses it";
  expect_nothing_is_left();
}

TEST_F(SessionRestart, MemoryThatIsNotSealedYet_IsSealedByTheNextAdapter) {
  Client& client = *clients.emplace_back(std::make_unique<Client>(life->daemon));
  client.keep();
  ASSERT_EQ(client.greet(), 0);
  client.keep_descriptors();
  restart();
  EXPECT_EQ(first().vcb_holder().session, nullptr) << "the process may still free its memory";
  EXPECT_EQ(end(first(), Operation::kQueryDevice, 0), 0);
  EXPECT_NE(first().vcb_holder().session, nullptr);
  expect_nothing_is_left();
}

TEST_F(SessionRestart, SessionThatHasGone_LeavesNothing) {
  Client& client = connect();
  const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{});
  made<abi::CreateCqReply>(client, Operation::kCreateCq,
                           abi::CreateCqRequest{5, 100, abi::kNoHandle});
  made<abi::AllocSharedReply>(client, Operation::kAllocShared,
                              abi::AllocSharedRequest{abi::kPageBytes});
  EXPECT_EQ(end(client, Operation::kImportPd, pd.handle), 0);
  const std::unique_ptr<Client> gone = std::move(clients.front());
  clients.clear();
  restart();
  EXPECT_EQ(life->records.size(), 0u);
  configuration::for_each_kind(
      [&](Kind kind) { EXPECT_EQ(life->in_use(kind), 0u) << configuration::name_of(kind); });
}

TEST_F(SessionRestart, LimitsThatWereLowered_TakeNothingAway) {
  Client& client = connect();
  made(client, Operation::kAllocPd, abi::HandleBody{});
  made<abi::CreateCqReply>(client, Operation::kCreateCq,
                           abi::CreateCqRequest{5, 100, abi::kNoHandle});
  end_adapter();
  for (const Kind kind : {Kind::kProtectionDomains, Kind::kCompletionQueues, Kind::kMappings})
    life->daemon.adapter.tenants[0]->control.accounts.set_limit(kind, 0);
  clients.push_back(std::make_unique<Client>(life->daemon, *earlier_.back().clients[0]));
  ASSERT_TRUE(life->restore({clients[0].get()}));
  EXPECT_EQ(life->in_use(Kind::kProtectionDomains), 1u);
  EXPECT_EQ(first().ask(Operation::kAllocPd, abi::HandleBody{}), ENOMEM) << "a new one";
}

}  // namespace
}  // namespace softhca::control
