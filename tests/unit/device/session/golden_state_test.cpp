// SPDX-License-Identifier: Apache-2.0

// The objects of processes that an adapter of an earlier release has left (tests/state): this
// adapter takes them up. With SOFTHCA_WRITE_STATE, the test writes the state of this release into
// that file, for tests of later ones.
#include <sys/mman.h>

#include <cstdlib>
#include <random>
#include <string>

#include "tests/golden_state.hpp"
#include "tests/unit/device/session/session_restart.hpp"

namespace softhca::control {
namespace {

class GoldenObjects : public SessionRestart {
 protected:
  /// No adapter has run yet.
  GoldenObjects() {
    life->retire();
    earlier_.emplace_back(std::move(life), std::vector<std::unique_ptr<Client>>());
    keeper.clear();
  }

  static abi::QpAttributes connected_attributes(const abi::AddressVector& av, std::uint32_t qpn) {
    abi::QpAttributes a{};
    a.port_num = 1;
    a.access_flags = 7;
    a.av = av;
    a.path_mtu = 3;
    a.dest_qp_num = qpn;
    a.rq_psn = 77;
    a.sq_psn = 77;  // connected to itself
    a.max_dest_rd_atomic = 4;
    a.max_rd_atomic = 3;
    a.min_rnr_timer = 12;
    a.timeout = 14;
    a.retry_cnt = 5;
    a.rnr_retry = 6;
    return a;
  }
  void become_ready_to_send(Client& client, std::uint32_t qpn) {
    const abi::QpAttributes a = connected_attributes(to_itself(), qpn);
    ASSERT_EQ(modify(client, qpn, 1, attr::kPkeyIndex | attr::kPort | attr::kAccessFlags, a), 0);
    ASSERT_EQ(modify(client, qpn, 2, kToReceive, a), 0) << client.why();
    ASSERT_EQ(modify(client, qpn, 3,
                     attr::kTimeout | attr::kRetryCount | attr::kRnrRetry | attr::kSqPsn |
                         attr::kMaxRdAtomic,
                     a),
              0)
        << client.why();
  }

  /// Makes an object of each kind. Returns what the next adapter is asked for.
  std::map<std::string, std::uint64_t> make_all() {
    std::map<std::string, std::uint64_t> values;
    Client& client = connect();
    Client& joiner = connect();
    const auto pd = made(client, Operation::kAllocPd, abi::HandleBody{}).handle;
    values["pd"] = pd;
    // Memory that is shared, memory that is not, and none.
    const auto shared = made<abi::AllocSharedReply>(client, Operation::kAllocShared,
                                                    abi::AllocSharedRequest{4 * abi::kPageBytes});
    void* const at = ::mmap(nullptr, 4 * abi::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                            client.last_kept(), 0);
    EXPECT_NE(at, MAP_FAILED);
    std::strcpy(static_cast<char*>(at) + 5000, "golden");
    made<abi::SharedToken>(client, Operation::kNameShared, abi::HandleBody{shared.handle, 0});
    constexpr std::uint64_t kAddress = 0x7000'0000;
    struct {
      abi::RegisterMrRequest head;
      abi::MrExtent extent;
    } request{{kAddress, 4 * abi::kPageBytes, kAddress, memory::kLocalWrite, pd, 1, 0},
              {kAddress, 4 * abi::kPageBytes, 0, shared.handle, 1}};
    const auto mapped = made<abi::RegisterMrReply>(client, Operation::kRegisterMr, request);
    values["shared"] = shared.handle;
    values["mapped"] = mapped.handle;
    values["mapped_key"] = mapped.lkey;
    static char unshared[100] = "unshared";
    const auto there = reinterpret_cast<std::uintptr_t>(unshared);
    request = {{there, 100, there, memory::kLocalWrite, pd, 1, 0}, {there, 100, 0, 0, 0}};
    values["reached"] = made<abi::RegisterMrReply>(client, Operation::kRegisterMr, request).handle;
    values["null"] =
        made<abi::RegisterMrReply>(client, Operation::kAllocNullMr, abi::HandleBody{pd, 0}).handle;
    values["window"] =
        made<abi::AllocWindowReply>(client, Operation::kAllocWindow, abi::AllocWindowRequest{pd, 1})
            .handle;
    const auto token = made<abi::ContextToken>(client, Operation::kShareContext, abi::HandleBody{});
    EXPECT_EQ(joiner.ask(Operation::kJoinContext, token), 0);

    const auto channel = made(client, Operation::kCreateChannel, abi::HandleBody{});
    const auto cq = made<abi::CreateCqReply>(client, Operation::kCreateCq,
                                             abi::CreateCqRequest{5, 100, channel.handle})
                        .handle;
    EXPECT_EQ(client.ask(Operation::kModifyCq, abi::ModifyCqRequest{cq, 8, 100}), 0);
    const auto srq = made<abi::CreateSrqReply>(client, Operation::kCreateSrq,
                                               abi::CreateSrqRequest{6, pd, 30, 2, 5})
                         .handle;
    const auto rc =
        made<abi::CreateQpReply>(client, Operation::kCreateQp, qp_request(kReliable, pd, cq)).qpn;
    become_ready_to_send(client, rc);
    auto with_srq = qp_request(kReliable, pd, cq);
    with_srq.srq = srq;
    const auto of_srq = made<abi::CreateQpReply>(client, Operation::kCreateQp, with_srq).qpn;
    become_ready_to_send(client, of_srq);
    const auto ud =
        made<abi::CreateQpReply>(client, Operation::kCreateQp, qp_request(kDatagram, pd, cq)).qpn;
    abi::QpAttributes a{};
    a.port_num = 1;
    a.qkey = 0x11111111;
    EXPECT_EQ(modify(client, ud, 1, attr::kPkeyIndex | attr::kPort | attr::kQkey, a), 0);
    abi::MulticastRequest group{ud, 0, {}};
    std::memcpy(group.group, kJoined.bytes.data(), sizeof group.group);
    EXPECT_EQ(client.ask(Operation::kAttachMulticast, group), 0) << client.why();
    const auto ah = made(client, Operation::kCreateAh, abi::CreateAhRequest{pd, 0, to_itself()});
    values["cq"] = cq;
    values["srq"] = srq;
    values["rc"] = rc;
    values["of_srq"] = of_srq;
    values["ud"] = ud;
    values["ah"] = ah.handle;

    const abi::OpenXrcDomainRequest file{1, 5, abi::kXrcOfFile | abi::kXrcCreate, 0};
    const auto domain = made(client, Operation::kOpenXrcDomain, file).handle;
    const auto joined = made(joiner, Operation::kOpenXrcDomain, file).handle;
    values["xrc_srq"] =
        made_in_sealed<abi::CreateSrqReply>(client, Operation::kCreateSrq,
                                            abi::CreateXrcSrqRequest{{6, pd, 30, 2, 0}, domain, cq})
            .handle;
    const auto target =
        made<abi::CreateQpReply>(
            client, Operation::kCreateQp,
            abi::CreateQpRequest{.user_handle = 3, .type = kTarget, .xrc_domain = domain})
            .qpn;
    values["target"] = target;
    values["opened"] =
        made(joiner, Operation::kOpenQp, abi::OpenQpRequest{4, joined, target}).handle;
    values["domain"] = domain;
    values["joined"] = joined;
    for (int i = 0; i < 2; ++i) {
      const std::string name = "client" + std::to_string(i);
      values[name + ".socket"] = clients[static_cast<std::size_t>(i)]->record().socket;
      values[name + ".pidfd"] = clients[static_cast<std::size_t>(i)]->record().pidfd;
    }
    ::munmap(at, 4 * abi::kPageBytes);
    return values;
  }

  /// Starts an adapter that takes up the state.
  void start(GoldenState& state) {
    life = std::make_unique<SessionLife>(keeper);
    for (const std::string name : {"client0", "client1"}) {
      const SocketPeer::KeptPeer kept{state.value(name + ".socket"), state.value(name + ".pidfd")};
      clients.push_back(std::make_unique<Client>(life->daemon, kept,
                                                 ProcessEnd(state.take_other_end(kept.socket))));
    }
    const Outcome restored = life->restore({&first(), &second()});
    ASSERT_TRUE(restored) << restored.error().message;
  }
  /// Changes what the engine has left: change(engine::DurableState&).
  template <class Change>
  void change_left(Change&& change) {
    FakeKeeping keeping(keeper);
    const std::span<std::byte> memory = keeping.memory(keeping.find(KeptRole::kEngine, 0));
    const auto sizes = engine::DurableState::check(memory);
    ASSERT_TRUE(sizes);
    engine::DurableState left(*sizes, memory);
    change(left);
    keeping.retire();
  }
  /// Puts any bytes into some words of what the engine has left.
  static void damage(engine::DurableState& left, std::mt19937_64& random) {
    const auto change = [&](std::span<std::byte> bytes) {
      for (auto times = random() % 8; times != 0; --times) {
        const std::size_t width = std::size_t{1} << random() % 4;
        const std::size_t at = random() % (bytes.size() / width) * width;
        const std::uint64_t value = random() % 2 != 0 ? random() : random() % 4;
        std::memcpy(bytes.data() + at, &value, width);
      }
    };
    const auto change_one = [&](auto& object) {
      change(std::as_writable_bytes(std::span(&object, 1)));
    };
    for (std::uint32_t slot = 0; slot < left.slots(); ++slot) {
      engine::QpDurable& qp = left.queue_pair(slot);
      if (qp.in_use == 0) continue;
      const auto number = qp.number;
      change_one(qp);
      // Otherwise it is not found, and the rest of its damage has no effect.
      if (random() % 8 != 0) qp.number = number, qp.in_use = 1;
      change_one(left.receive(slot));
      change(std::as_writable_bytes(left.replays(slot).all));
    }
    for (memory::Window& window : left.windows()) change_one(window);
    for (memory::RegionMark& mark : left.regions().all)
      if (mark.key != 0 && random() % 4 == 0) change_one(mark);
    change(std::as_writable_bytes(left.time_waits()));
    if (random() % 4 == 0) *left.regions().last_serial = random();
  }
  /// Lets the engine do what it finds to do, and asks for objects. Returns how many queue pairs are
  /// in the error state.
  unsigned use(const GoldenState& state) {
    for (int turns = 0; turns < 20; ++turns) life->daemon.worker.run(engine::Task{[](auto&) {}});
    unsigned failed = 0;
    for (const char* const name : {"rc", "of_srq", "ud", "target"})
      failed += query(first(), state.number(name)).qp_state ==
                static_cast<std::uint32_t>(engine::QpState::kError);
    EXPECT_EQ(end(first(), Operation::kImportPd, state.number("pd")), 0);
    return failed;
  }
};

/// The files are the states that releases left. objects-1 is of the first release that leaves any.
class GoldenObjectsOf : public GoldenObjects, public ::testing::WithParamInterface<const char*> {};

TEST_F(GoldenObjects, OfThisRelease_AreWritten) {
  const char* const to = std::getenv("SOFTHCA_WRITE_STATE");
  if (to == nullptr) GTEST_SKIP() << "nothing is to be written";
  life = std::make_unique<SessionLife>(keeper);
  const auto values = make_all();
  end_adapter();
  GoldenState::write(to, keeper, values);
}

/// A later release may add to the end of each record.
TEST_F(GoldenObjects, OfALaterRelease_AreTakenUp) {
  life = std::make_unique<SessionLife>(keeper);
  make_all();
  restart([&] { at_rest_.change_all([](auto& body) { body.resize(body.size() + 12); }); });
  restart([&] {
    at_rest_.change_all([](auto& body) { body.resize(body.size() + 12, std::byte{'l'}); });
  });
}

TEST_P(GoldenObjectsOf, AnEarlierRelease_AreTakenUp) {
  GoldenState state(std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + "/tests/state/" + GetParam(),
                    keeper);
  const auto all = GoldenState::kinds(keeper);
  for (unsigned kind = 1; kind <= static_cast<unsigned>(records::Kind::kOfferedMemory); ++kind)
    EXPECT_TRUE(all.contains(static_cast<records::Kind>(kind)))
        << name_of(static_cast<records::Kind>(kind));
  start(state);

  const auto mapped = made<abi::ImportMrReply>(first(), Operation::kImportMr,
                                               abi::HandleBody{state.number("mapped"), 0});
  EXPECT_EQ(mapped.lkey, state.number("mapped_key"));
  EXPECT_EQ(read(mapped.lkey, 5000, 6), "golden");
  for (const char* const name : {"rc", "of_srq"}) {
    const std::uint32_t qpn = state.number(name);
    const abi::QpAttributes is = query(first(), qpn);
    const abi::QpAttributes was = connected_attributes(to_itself(), qpn);
    EXPECT_EQ(is.qp_state, 3u) << name;
    EXPECT_EQ(is.path_mtu, was.path_mtu);
    EXPECT_EQ(is.dest_qp_num, was.dest_qp_num);
    EXPECT_EQ(is.max_rd_atomic, was.max_rd_atomic);
    EXPECT_EQ(is.max_dest_rd_atomic, was.max_dest_rd_atomic);
    EXPECT_EQ(is.min_rnr_timer, was.min_rnr_timer);
    EXPECT_EQ(is.timeout, was.timeout);
    EXPECT_EQ(is.retry_cnt, was.retry_cnt);
    EXPECT_EQ(is.rnr_retry, was.rnr_retry);
    EXPECT_EQ(std::memcmp(&is.av, &was.av, sizeof is.av), 0);
    life->daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      const engine::QueuePair* const qp = engine.durable().queue_pairs.find(Qpn(qpn));
      ASSERT_NE(qp, nullptr);
      EXPECT_EQ(qp->record.durable->sent_position().psn, Psn(was.sq_psn));
      EXPECT_EQ(qp->record.durable->taken_position(1024).expected, Psn(was.rq_psn));
      EXPECT_EQ(qp->sq.cq->moderation_count, 8u);
    }});
  }
  EXPECT_EQ(query(first(), state.number("ud")).qkey, 0x11111111u);
  const auto srq = made<abi::QuerySrqReply>(first(), Operation::kQuerySrq,
                                            abi::HandleBody{state.number("srq"), 0});
  EXPECT_EQ(srq.max_wr, 30u);
  EXPECT_EQ(srq.limit, 5u);

  // Each object is there, or its end would be refused.
  abi::MulticastRequest group{state.number("ud"), 0, {}};
  std::memcpy(group.group, kJoined.bytes.data(), sizeof group.group);
  EXPECT_EQ(first().ask(Operation::kDetachMulticast, group), 0);
  for (const char* const name : {"rc", "of_srq", "ud", "target"})
    EXPECT_EQ(first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{state.number(name), 0}), 0)
        << name;
  EXPECT_EQ(end(second(), Operation::kCloseQp, state.number("opened")), 0);
  const std::pair<Operation, const char*> ends[] = {
      {Operation::kDestroyAh, "ah"},          {Operation::kDestroySrq, "xrc_srq"},
      {Operation::kDestroySrq, "srq"},        {Operation::kDestroyCq, "cq"},
      {Operation::kCloseXrcDomain, "domain"}, {Operation::kDeallocWindow, "window"},
      {Operation::kDeregisterMr, "mapped"},   {Operation::kDeregisterMr, "reached"},
      {Operation::kDeregisterMr, "null"},     {Operation::kDeallocPd, "pd"},
      {Operation::kFreeShared, "shared"}};
  for (const auto& [operation, name] : ends)
    EXPECT_EQ(end(first(), operation, state.number(name)), 0) << name << ": " << first().why();
  EXPECT_EQ(end(second(), Operation::kCloseXrcDomain, state.number("joined")), 0);
  expect_nothing_is_left();
}

/// A target of an XRC domain in the middle of a send has a receive, unless its record is wrong.
TEST_F(GoldenObjects, ASendWithoutReceive_IsForgotten) {
  GoldenState state(std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + "/tests/state/objects-1",
                    keeper);
  bool found = false;
  change_left([&](engine::DurableState& left) {
    for (std::uint32_t slot = 0; slot < left.slots(); ++slot) {
      engine::QpDurable& qp = left.queue_pair(slot);
      if (qp.in_use == 0 || qp.number != state.number("target")) continue;
      found = true;
      qp.state = static_cast<std::uint8_t>(engine::QpState::kRtr);
      qp.store_taken({.expected = Psn(5),
                      .message = {.kind = transport::PartOfMessage::Kind::kSend, .received = 1024}},
                     1024);
    }
  });
  ASSERT_TRUE(found);
  start(state);
  use(state);
}

/// As when an engine has written over its own memory before it crashed.
TEST_F(GoldenObjects, AnyBytesInTheMemoryOfTheEngine_EndNoAdapter) {
  const std::string file =
      std::string(std::getenv("SOFTHCA_SOURCE_ROOT")) + "/tests/state/objects-1";
  std::mt19937_64 random(static_cast<std::uint64_t>(
      ::testing::UnitTest::GetInstance()->random_seed()));  // 0 without --gtest_shuffle
  unsigned failed = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    {
      GoldenState state(file, keeper);
      change_left([&](engine::DurableState& left) { damage(left, random); });
      start(state);
      failed += use(state);
      restart();
      use(state);
      for (const char* const name : {"rc", "of_srq", "ud"})
        first().ask(Operation::kDestroyQp, abi::DestroyQpRequest{state.number(name), 0});
      end_adapter();
      life->retire();
      life.reset();
      earlier_.clear();
    }
    keeper.clear();
  }
  EXPECT_GT(failed, 0u) << "the damage has an effect";
}

INSTANTIATE_TEST_SUITE_P(Releases, GoldenObjectsOf, ::testing::Values("objects-1"));

}  // namespace
}  // namespace softhca::control
