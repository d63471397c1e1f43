// SPDX-License-Identifier: Apache-2.0

// A session over a pair of sockets: what a process asks for, rightly and wrongly.
#include "daemon/device/session/device_session.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/sealed_memory.hpp"
#include "tests/unit/device/session/client.hpp"
#include "tests/unit/frontend/unix/sockets/lingering.hpp"

namespace softhca::control {
namespace {

constexpr abi::HandleBody kNothing{};

class SessionTest : public ::testing::Test {
 protected:
  ~SessionTest() {
    client.end();
    for (const auto& tenant : daemon.adapter.tenants) {
      EXPECT_EQ(tenant->counters.sessions.value(), 0u);
      EXPECT_EQ(tenant->counters.queue_pairs.value(), 0u);
      EXPECT_EQ(tenant->counters.memory_regions.value(), 0u);
      EXPECT_EQ(tenant->counters.memory.registered_bytes.value(), 0u);
      EXPECT_EQ(tenant->control.vcbs.in_use.value(), 0u);
      configuration::for_each_kind([&](configuration::Kind kind) {
        EXPECT_EQ(tenant->control.accounts.in_use(kind), 0u) << configuration::name_of(kind);
      });
    }
    EXPECT_EQ(daemon.engine.intake().functions().unassigned(),
              daemon.engine.intake().functions().size());
    EXPECT_EQ(daemon.engine.keys().size(), 0u);
  }
  abi::CreateQpRequest qp_request(std::uint32_t type = 2) {
    if (!prepared) {
      EXPECT_EQ(client.greet(), 0);
      pd = client.make(Operation::kAllocPd);
      abi::CreateCqReply reply{};
      EXPECT_EQ(
          client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 100, abi::kNoHandle}, &reply),
          0);
      EXPECT_EQ(reply.entries, 128u);
      cq = reply.handle;
      prepared = true;
    }
    return {.user_handle = 7,
            .pd = pd,
            .type = type,
            .send_cq = cq,
            .receive_cq = cq,
            .srq = abi::kNoHandle,
            .max_send_wr = 10,
            .max_receive_wr = 10,
            .max_send_sge = 2,
            .max_receive_sge = 1,
            .max_inline = 64};
  }
  int modify(std::uint32_t qpn, abi::QpAttributes attributes) {
    return client.ask(Operation::kModifyQp, abi::ModifyQpRequest{qpn, 0, attributes});
  }

  Daemon daemon;
  Client client{daemon};
  bool prepared = false;
  std::uint32_t pd = 0;
  std::uint32_t cq = 0;
};

/// A process could otherwise give pages back while the engine looks at them, which waits meanwhile.
TEST_F(SessionTest, MemoryIsUsedOnceNothingOfItCanBeGivenBack) {
  const auto seals = [&](int memory) { return ::fcntl(memory, F_GET_SEALS); };
  ASSERT_EQ(client.greet(), 0);
  const UniqueFd session(::dup(client.descriptor(0)));
  EXPECT_EQ(seals(session.get()) & F_SEAL_FUTURE_WRITE, 0) << "the process has yet to map it";
  EXPECT_EQ(client.vcb_holder().session, nullptr) << "nothing is looked at yet";
  abi::CreateCqReply made{};
  ASSERT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 100, abi::kNoHandle}, &made),
            0);
  EXPECT_NE(seals(session.get()) & F_SEAL_FUTURE_WRITE, 0);
  EXPECT_NE(client.vcb_holder().session, nullptr);
  ASSERT_EQ(made.new_segment, 1u);
  const UniqueFd rings(::dup(client.descriptor(0)));
  EXPECT_EQ(seals(rings.get()) & F_SEAL_FUTURE_WRITE, 0);
  client.make(Operation::kAllocPd);
  EXPECT_NE(seals(rings.get()) & F_SEAL_FUTURE_WRITE, 0);
}

TEST_F(SessionTest, AProcessThatForbidsSealsIsLetGo) {
  ASSERT_EQ(client.greet(), 0);
  ASSERT_EQ(::fcntl(client.descriptor(0), F_ADD_SEALS, F_SEAL_SEAL), 0);
  const abi::HandleBody body{};
  EXPECT_FALSE(client.send(Operation::kAllocPd, std::as_bytes(std::span(&body, 1))));
  EXPECT_NE(client.take_refusal().find("cannot seal its memory"), std::string::npos);
}

TEST_F(SessionTest, MemoryThatTheProcessHasSealedItselfIsNotWaitedFor) {
  std::promise<void> held;
  daemon.adapter.blocking_calls.make(daemon.adapter.tenants[0]->name,
                                     [until = held.get_future().share()] { until.wait(); });
  ASSERT_EQ(client.greet(), 0);
  ASSERT_TRUE(SealedMemory::seal_holes(client.descriptor(0)));
  client.put(Operation::kAllocPd, std::as_bytes(std::span(&kNothing, 1)));
  ASSERT_TRUE(client.serve_once());
  EXPECT_FALSE(client.session().is_waiting());
  EXPECT_EQ(client.session().object_counts().protection_domains, 1u);
  held.set_value();
  // What it was charged for its descriptor ends when that is closed.
  pollfd closed{daemon.adapter.blocking_calls.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&closed, 1, 60'000), 1);
  daemon.adapter.blocking_calls.finish();
}

/// What waits for its seal waits alone, and ends with its process.
TEST_F(SessionTest, ARequestWaitsUntilItsMemoryIsSealed) {
  std::promise<void> held;
  const auto hold = [&] {
    daemon.adapter.blocking_calls.make(daemon.adapter.tenants[0]->name,
                                       [until = held.get_future().share()] { until.wait(); });
  };
  hold();
  ASSERT_EQ(client.greet(), 0);
  client.put(Operation::kAllocPd, std::as_bytes(std::span(&kNothing, 1)));
  ASSERT_TRUE(client.serve_once());
  EXPECT_TRUE(client.session().is_waiting());
  EXPECT_EQ(client.vcb_holder().session, nullptr) << "nothing is looked at yet";
  EXPECT_EQ(client.session().object_counts().protection_domains, 0u);
  held.set_value();
  client.wait_for_calls();
  ASSERT_TRUE(client.serve_once());
  EXPECT_EQ(client.session().object_counts().protection_domains, 1u);
  std::vector<std::byte> body;
  EXPECT_EQ(client.receive(body), 0);

  held = {};
  hold();
  Client second(daemon);
  ASSERT_EQ(second.greet(), 0);
  second.put(Operation::kAllocPd, std::as_bytes(std::span(&kNothing, 1)));
  ASSERT_TRUE(second.serve_once());
  EXPECT_FALSE(second.serve_once()) << "its socket has something to say only when it ends";
  second.end();
  const auto& accounts = daemon.adapter.tenants[0]->control.accounts;
  EXPECT_EQ(accounts.in_use(configuration::Kind::kDescriptors), 2 * DeviceSession::kDescriptors)
      << "memory that waits for its seal is open";
  held.set_value();
  client.make(Operation::kAllocPd);
  while (daemon.adapter.blocking_calls.waiting() != 0) std::this_thread::yield();
  daemon.adapter.blocking_calls.finish();
  EXPECT_EQ(accounts.in_use(configuration::Kind::kDescriptors), DeviceSession::kDescriptors);
}

/// The process cannot map the segment. It reports this by destroying the object in it.
TEST_F(SessionTest, ASegmentThatCouldNotBeMappedIsGivenUp) {
  ASSERT_EQ(client.greet(), 0);
  const abi::CreateCqRequest request{1, 100, abi::kNoHandle};
  abi::CreateCqReply made{};
  ASSERT_EQ(client.ask(Operation::kCreateCq, request, &made), 0);
  ASSERT_EQ(made.new_segment, 1u);
  ASSERT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{made.handle, 0}), 0);
  ASSERT_EQ(client.ask(Operation::kCreateCq, request, &made), 0);
  EXPECT_EQ(made.new_segment, 1u);
}

/// The engine writes to it before the process asks for anything else.
TEST_F(SessionTest, TheRingOfAResizedCompletionQueueIsMadeInSealedMemory) {
  qp_request();
  const abi::ResizeCqRequest request{cq, 1 << 14};
  abi::CreateCqReply reply{};
  ASSERT_EQ(client.ask(Operation::kResizeCq, request, &reply), 0);
  EXPECT_EQ(reply.handle, abi::kNoHandle);
  EXPECT_EQ(reply.ring.bytes, 0u);
  ASSERT_EQ(reply.new_segment, 1u);
  const std::uint32_t segment = reply.ring.segment;
  const UniqueFd memory(::dup(client.descriptor(0)));
  EXPECT_EQ(::fcntl(memory.get(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
  ASSERT_EQ(client.ask(Operation::kResizeCq, request, &reply), 0);
  EXPECT_EQ(reply.handle, cq);
  EXPECT_EQ(reply.ring.segment, segment);
  EXPECT_EQ(reply.new_segment, 0u);
  EXPECT_NE(::fcntl(memory.get(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
  ASSERT_EQ(client.ask(Operation::kResizeCq, abi::ResizeCqRequest{cq, 100}, &reply), 0);
  EXPECT_EQ(reply.handle, cq) << "there is room where it is sealed";
}

TEST_F(SessionTest, WindowsBelongToADomain) {
  qp_request();
  for (const std::uint32_t type : {0u, 3u, ~0u})
    EXPECT_EQ(client.ask(Operation::kAllocWindow, abi::AllocWindowRequest{pd, type}), EINVAL);
  EXPECT_EQ(client.ask(Operation::kAllocWindow, abi::AllocWindowRequest{pd + 1, 1}), EINVAL);
  abi::AllocWindowReply window{};
  ASSERT_EQ(client.ask(Operation::kAllocWindow, abi::AllocWindowRequest{pd, 1}, &window), 0);
  EXPECT_EQ(daemon.engine.memory().windows().size(), 1u);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{pd, 0}), EBUSY);
  EXPECT_EQ(client.ask(Operation::kDeallocWindow, abi::HandleBody{window.handle, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDeallocWindow, abi::HandleBody{window.handle, 0}), EINVAL);
  EXPECT_EQ(daemon.engine.memory().windows().size(), 0u);
}

TEST_F(SessionTest, NullRegionsHaveNoRkeyAndStayWhatTheyAre) {
  qp_request();
  EXPECT_EQ(client.ask(Operation::kAllocNullMr, abi::HandleBody{pd + 1, 0}), EINVAL);
  EXPECT_EQ(client.ask(Operation::kAllocNullMr, pd), EINVAL) << "too short";
  abi::RegisterMrReply mr{};
  ASSERT_EQ(client.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}, &mr), 0);
  EXPECT_EQ(mr.rkey, 0u);
  const memory::Region* region = daemon.engine.keys().lookup(mr.lkey);
  ASSERT_NE(region, nullptr);
  EXPECT_TRUE(region->is_null());
  engine::TenantCounters& counters = daemon.adapter.tenants[0]->counters;
  EXPECT_EQ(counters.memory_regions.value(), 1u);
  EXPECT_EQ(counters.memory.registered_bytes.value(), 0u);
  abi::ReregisterMrRequest change{mr.handle, 4, {}};
  change.region.access = memory::kLocalWrite | memory::kRemoteWrite;
  EXPECT_EQ(client.ask(Operation::kReregisterMr, change), EINVAL);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{pd, 0}), EBUSY);
  EXPECT_EQ(client.ask(Operation::kDeregisterMr, abi::HandleBody{mr.handle, 0}), 0);
  EXPECT_EQ(daemon.engine.keys().size(), 0u);

  daemon.adapter.tenants[0]->control.accounts.set_limit(configuration::Kind::kMemoryRegions, 2);
  EXPECT_EQ(client.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}), ENOMEM);
}

TEST_F(SessionTest, OnlyOwnCompletionQueuesAreModerated) {
  qp_request();
  const auto moderate = [&](std::uint32_t handle) {
    return client.ask(Operation::kModifyCq, abi::ModifyCqRequest{handle, 0xffff, 0xffff});
  };
  EXPECT_EQ(moderate(cq), 0);
  EXPECT_EQ(moderate(cq + 1), EINVAL);
  EXPECT_EQ(moderate(abi::kNoHandle), EINVAL);
  EXPECT_EQ(client.ask(Operation::kModifyCq, cq), EINVAL) << "too short";
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{cq, 0}), 0);
  EXPECT_EQ(moderate(cq), EINVAL);
}

TEST_F(SessionTest, RegionsChangeInPlace) {
  qp_request();
  struct {
    abi::RegisterMrRequest head{};
    abi::MrExtent extent{};
  } made;
  const auto at = reinterpret_cast<std::uint64_t>(&made);
  made.head = {at, sizeof made, at, memory::kLocalWrite, pd, 1, 0};
  made.extent = {at, sizeof made, 0, 0, 0};
  abi::RegisterMrReply mr{};
  ASSERT_EQ(client.ask(Operation::kRegisterMr, made, &mr), 0);
  struct {
    abi::ReregisterMrRequest head{};
    abi::MrExtent extent{};
  } moved;
  moved.head = {mr.handle, 1, {at, 8, at, 0, 0, 1, 0}};
  moved.extent = {at, 8, 0, 0, 0};
  abi::RegisterMrReply again{};
  ASSERT_EQ(client.ask(Operation::kReregisterMr, moved, &again), 0);
  EXPECT_EQ(again.rkey, mr.rkey);
  const memory::Region* region = daemon.engine.keys().lookup(mr.lkey);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->length(), 8u);
  EXPECT_EQ(region->access(), std::uint32_t{memory::kLocalWrite});

  abi::ReregisterMrRequest change{mr.handle, 4, {}};
  change.region.access = memory::kRemoteWrite;  // without local writing
  EXPECT_EQ(client.ask(Operation::kReregisterMr, change), EINVAL);
  change = {mr.handle, 2, {}};
  change.region.pd = pd + 1;
  EXPECT_EQ(client.ask(Operation::kReregisterMr, change), EINVAL);
  EXPECT_EQ(client.ask(Operation::kReregisterMr, abi::ReregisterMrRequest{mr.handle, 8, {}}),
            EINVAL);
  EXPECT_EQ(client.ask(Operation::kReregisterMr, abi::ReregisterMrRequest{mr.handle + 1, 4, {}}),
            EINVAL);
  moved.extent.length = 4;  // covers half
  EXPECT_EQ(client.ask(Operation::kReregisterMr, moved), EINVAL);
  EXPECT_EQ(daemon.engine.keys().lookup(mr.lkey), region) << "all that failed changed nothing";
  const std::uint32_t other = client.make(Operation::kAllocPd);
  change = {mr.handle, 2, {}};
  change.region.pd = other;
  ASSERT_EQ(client.ask(Operation::kReregisterMr, change, &again), 0);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{other, 0}), EBUSY);
  EXPECT_EQ(client.ask(Operation::kDeregisterMr, abi::HandleBody{mr.handle, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{other, 0}), 0);
}

TEST_F(SessionTest, HelloComesFirstAndOnce) {
  EXPECT_EQ(client.ask(Operation::kHello, abi::HelloRequest{1, {abi::kAbiVersion, 0}}), EPROTO);
  EXPECT_EQ(client.greet(), 0);
  EXPECT_EQ(client.descriptors(), 3u);
  EXPECT_EQ(client.vcbs, abi::kMaxVcbsPerSession);
  const abi::HelloRequest again{abi::kSessionMagic, {abi::kAbiVersion, 0}};
  EXPECT_FALSE(client.send(Operation::kHello, std::as_bytes(std::span(&again, 1))));
  Client rude(daemon);
  EXPECT_FALSE(rude.send(Operation::kAllocPd, {}));
}

TEST_F(SessionTest, TheOperatorIsToldWhyAProcessIsRefused) {
  EXPECT_EQ(client.ask(Operation::kHello, abi::HelloRequest{1, {abi::kAbiVersion, 0}}), EPROTO);
  EXPECT_EQ(client.take_refusal(), "") << "no provider of ours";
  const abi::HelloRequest newer{abi::kSessionMagic, {abi::kAbiVersion + 1, 0}};
  EXPECT_EQ(client.ask(Operation::kHello, newer), EPROTO);
  const std::string other_version =
      "the provider speaks protocol version " + std::to_string(abi::kAbiVersion + 1) +
      ", the daemon " + std::to_string(abi::kAbiVersion) + "; upgrade the daemon (package softhca)";
  EXPECT_EQ(client.take_refusal(), other_version);
  EXPECT_EQ(client.take_refusal(), "") << "once";
  const struct {
    abi::HelloRequest hello;
    std::uint64_t more[100];
  } longer{newer, {}};
  EXPECT_EQ(client.ask(Operation::kHello, longer), EPROTO);
  EXPECT_EQ(client.take_refusal(), other_version) << "also where its HELLO has another length";
  const abi::HelloWithLevel named{{abi::kSessionMagic, {abi::kAbiVersion, 0}}, "no\n\x1b"};
  EXPECT_EQ(client.ask(Operation::kHello, named), EINVAL);
  EXPECT_EQ(
      client.take_refusal(),
      "it asks for level \"no??\", but the tenant has none; correct --level or SOFTHCA_LEVEL");
}

/// Returns the place of the word in `kick` that the daemon tells a process.
unsigned kick_of(Client& process) {
  abi::DeviceReply device{};
  EXPECT_EQ(process.ask(Operation::kQueryDevice, abi::HandleBody{}, &device), 0);
  return abi::kick_code(device.capabilities) - 1;
}

TEST(SessionKick, LevelGivesOne_ProcessIsToldThatElseTheTenants) {
  configuration::Config config = small_config();
  configuration::TenantConfig& settings = config.tenants.front();
  settings.programs.kick = configuration::KickChoice::kVirtual;
  settings.levels.resize(2);
  settings.levels[0].name = "alerts";
  settings.levels[0].kick = configuration::KickChoice::kExplicit;
  settings.levels[1].name = "rest";
  settings.levels[1].is_default = true;
  Daemon daemon(config);
  Client of_level(daemon), of_tenant(daemon), later(daemon);
  const abi::HelloWithLevel hello{{abi::kSessionMagic, {abi::kAbiVersion, 0}}, "alerts"};
  ASSERT_EQ(of_level.ask(Operation::kHello, hello), 0);
  EXPECT_EQ(kick_of(of_level), static_cast<unsigned>(configuration::KickChoice::kExplicit));
  ASSERT_EQ(of_tenant.greet(), 0);
  EXPECT_EQ(kick_of(of_tenant), static_cast<unsigned>(configuration::KickChoice::kVirtual));
  daemon.reconfigure([](auto& tenant) { tenant.programs.kick = configuration::KickChoice::kAuto; });
  ASSERT_EQ(later.greet(), 0);
  EXPECT_EQ(kick_of(later), static_cast<unsigned>(configuration::KickChoice::kAuto));
}

TEST_F(SessionTest, ObjectsInUseStay) {
  const auto request = qp_request();
  abi::CreateQpReply qp{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, request, &qp), 0);
  EXPECT_EQ(qp.send_entries, 16u);
  EXPECT_EQ(qp.max_send_wr, 10u);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{pd, 0}), EBUSY);
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{cq, 0}), EBUSY);
  EXPECT_EQ(client.ask(Operation::kDestroyQp, abi::HandleBody{qp.qpn, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDestroyQp, abi::HandleBody{qp.qpn, 0}), EINVAL);
  EXPECT_EQ(client.ask(Operation::kDestroyCq, abi::HandleBody{cq, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDeallocPd, abi::HandleBody{pd, 0}), 0);
}

TEST_F(SessionTest, QueuePairGoesThroughItsStates) {
  abi::CreateQpReply qp{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, qp_request(), &qp), 0);
  namespace attr = engine::attr;
  abi::QpAttributes init{.mask = attr::kState | attr::kPkeyIndex | attr::kPort | attr::kAccessFlags,
                         .qp_state = 1,
                         .port_num = 1};
  abi::QpAttributes rtr{.mask = attr::kState | attr::kAv | attr::kPathMtu | attr::kDestQpn |
                                attr::kRqPsn | attr::kMaxDestRdAtomic | attr::kMinRnrTimer,
                        .qp_state = 2,
                        .path_mtu = 3,
                        .dest_qp_num = qp.qpn,
                        .max_dest_rd_atomic = 1,
                        .min_rnr_timer = 12};
  rtr.av.is_global = rtr.av.port_num = 1;
  std::memcpy(rtr.av.dgid, daemon.config.tenants[0].addresses[0].bytes.data(), 16);
  abi::QpAttributes rts{.mask = attr::kState | attr::kTimeout | attr::kRetryCount |
                                attr::kRnrRetry | attr::kSqPsn | attr::kMaxRdAtomic,
                        .qp_state = 3,
                        .max_rd_atomic = 1,
                        .timeout = 14,
                        .retry_cnt = 7,
                        .rnr_retry = 7};
  EXPECT_EQ(modify(qp.qpn, rtr), EINVAL) << "out of turn";
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 6}), EINVAL) << "RESET to ERROR";
  EXPECT_EQ(modify(qp.qpn, init), 0);
  const auto refused = [&](auto&& change, int error = EINVAL) {
    abi::QpAttributes bad = rtr;
    change(bad);
    return modify(qp.qpn, bad) == error;
  };
  EXPECT_TRUE(refused([](auto& a) { a.path_mtu = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.path_mtu = 6; }));
  EXPECT_TRUE(refused([](auto& a) { a.dest_qp_num = 1 << 24; }));
  EXPECT_TRUE(refused([](auto& a) { a.av.sgid_index = 4; }));
  EXPECT_TRUE(refused([](auto& a) { a.av.is_global = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.max_dest_rd_atomic = 255; }));
  EXPECT_TRUE(refused([](auto& a) { a.min_rnr_timer = 32; }));
  EXPECT_TRUE(refused([](auto& a) { a.mask |= 1u << 21; }));
  EXPECT_TRUE(refused([](auto& a) { a.qp_state = 7; }));
  EXPECT_TRUE(refused([](auto& a) {
    a.mask |= attr::kCurState;
    a.cur_qp_state = 3;
  }));
  EXPECT_TRUE(refused([](auto& a) { a.mask |= attr::kAltPath; }, EOPNOTSUPP));
  EXPECT_EQ(modify(qp.qpn, rtr), 0);
  rts.mask |= attr::kPathMigState;
  for (const std::uint32_t rearm_or_armed : {1, 2}) {
    rts.path_mig_state = rearm_or_armed;
    EXPECT_EQ(modify(qp.qpn, rts), EOPNOTSUPP);
  }
  rts.path_mig_state = 0;
  EXPECT_EQ(modify(qp.qpn, rts), 0);
  abi::QueryQpReply query{};
  EXPECT_EQ(client.ask(Operation::kQueryQp, abi::HandleBody{qp.qpn, 0}, &query), 0);
  EXPECT_EQ(query.attributes.qp_state, 3u);
  EXPECT_EQ(query.attributes.dest_qp_num, qp.qpn);
  EXPECT_EQ(query.attributes.timeout, 14);
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 6}), 0);
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 3}), EINVAL);
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState, .qp_state = 0}), 0);
}

TEST_F(SessionTest, ControlledQkey_RefusedUnlessTheTenantMayUseSuch) {
  namespace attr = engine::attr;
  constexpr std::uint32_t kTypeUd = 4;
  abi::CreateQpReply qp{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, qp_request(kTypeUd), &qp), 0);
  const abi::QpAttributes init{.mask = attr::kState | attr::kPkeyIndex | attr::kPort | attr::kQkey,
                               .qp_state = 1,
                               .qkey = 0x80010000,
                               .port_num = 1};
  EXPECT_EQ(modify(qp.qpn, init), EPERM);
  abi::QpAttributes plain = init;
  plain.qkey = 0x7fffffff;
  EXPECT_EQ(modify(qp.qpn, plain), 0);
  EXPECT_EQ(modify(qp.qpn, {.mask = attr::kQkey, .qkey = 0x80000000}), EPERM) << "later, too";
  daemon.reconfigure([](auto& tenant) { tenant.programs.controlled_qkeys = true; });
  EXPECT_EQ(modify(qp.qpn, init), 0);
}

TEST_F(SessionTest, MemoryToRepeatReadsIsCountedAsAskedFor) {
  namespace attr = engine::attr;
  abi::CreateQpReply qp{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, qp_request(), &qp), 0);
  configuration::Accounts& accounts = daemon.adapter.tenants[0]->control.accounts;
  const auto taken = [&] { return accounts.in_use(configuration::Kind::kQueueBytes); };
  const std::uint64_t before = taken();
  const auto connect = [&](std::uint8_t reads) {
    abi::QpAttributes rtr{.mask = attr::kState | attr::kAv | attr::kPathMtu | attr::kDestQpn |
                                  attr::kRqPsn | attr::kMaxDestRdAtomic | attr::kMinRnrTimer,
                          .qp_state = 2,
                          .path_mtu = 3,
                          .dest_qp_num = qp.qpn,
                          .max_dest_rd_atomic = reads};
    rtr.av.is_global = rtr.av.port_num = 1;
    std::memcpy(rtr.av.dgid, daemon.config.tenants[0].addresses[0].bytes.data(), 16);
    EXPECT_EQ(modify(qp.qpn, {.mask = attr::kState}), 0);
    EXPECT_EQ(taken(), before) << "RESET gives it back";
    EXPECT_EQ(
        modify(qp.qpn, {.mask = attr::kState | attr::kPkeyIndex | attr::kPort | attr::kAccessFlags,
                        .qp_state = 1,
                        .port_num = 1}),
        0);
    return modify(qp.qpn, rtr);
  };
  ASSERT_EQ(connect(1), 0);
  const std::uint64_t one = taken() - before;
  EXPECT_GT(one, 0u);
  ASSERT_EQ(connect(128), 0);
  EXPECT_EQ(taken() - before, 128 * one);
  accounts.set_limit(configuration::Kind::kQueueBytes, before + 100 * one);
  EXPECT_EQ(connect(128), ENOMEM);
  EXPECT_EQ(taken(), before);
  EXPECT_EQ(connect(100), 0);
  EXPECT_EQ(client.ask(Operation::kDestroyQp, abi::HandleBody{qp.qpn, 0}), 0);
  EXPECT_LT(taken(), before);
}

TEST_F(SessionTest, LimitsHold) {
  auto request = qp_request();
  request.max_send_wr = 0xffffffff;
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EINVAL);
  request = qp_request();
  request.max_receive_sge = 17;
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EINVAL);
  request = qp_request(0x102);
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EOPNOTSUPP);
  request = qp_request();
  int error = 0;
  for (int i = 0; i < 65 && error == 0; ++i) error = client.ask(Operation::kCreateQp, request);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(daemon.adapter.tenants[0]->counters.queue_pairs.value(), 64u);
}

TEST_F(SessionTest, RegionsAreCheckedAndCounted) {
  qp_request();
  const auto address = reinterpret_cast<std::uint64_t>(&daemon);
  struct {
    abi::RegisterMrRequest head;
    abi::MrExtent extent;
  } request{{address, 100, address, 1, pd, 1, 0}, {address, 100, 0, 0, 0}};
  abi::RegisterMrReply reply{};
  EXPECT_EQ(client.ask(Operation::kRegisterMr, request, &reply), 0);
  EXPECT_EQ(daemon.adapter.tenants[0]->counters.memory.registered_bytes.value(), 100u);
  auto bad = request;
  bad.extent.length = 99;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.head.extents = 0x10000001;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.head.length = bad.extent.length = ~std::uint64_t{0};
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.head.access = 2;  // remote without local writing
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), EINVAL);
  bad = request;
  bad.extent.kind = 1;
  bad.extent.handle = 4711;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, bad), ESTALE);
  EXPECT_EQ(client.ask(Operation::kDeregisterMr, abi::HandleBody{reply.handle, 0}), 0);
  EXPECT_EQ(client.ask(Operation::kDeregisterMr, abi::HandleBody{reply.handle, 0}), EINVAL);
}

TEST_F(SessionTest, UnknownOperationsEndIt) {
  EXPECT_EQ(client.greet(), 0);
  EXPECT_FALSE(client.send(static_cast<Operation>(0), {}));
  const auto last = static_cast<std::uint32_t>(Operation::kImportMr);
  for (const std::uint32_t operation : {last + 1, 1000u, 0xffffffffu}) {
    Client other(daemon);
    EXPECT_EQ(other.greet(), 0);
    EXPECT_FALSE(other.send(static_cast<Operation>(operation), {}));
  }
  Client brief(daemon);
  EXPECT_FALSE(brief.send(std::array<std::byte, 7>{}));
}

/// Every operation with bodies of every length: the session answers or ends, the daemon lives.
TEST_F(SessionTest, RandomBodiesOfEveryLength) {
  std::mt19937 random(815);
  std::vector<std::byte> body;
  std::vector<std::byte> reply;
  auto wild = std::make_unique<Client>(daemon, 1);
  EXPECT_EQ(wild->greet(), 0);
  constexpr auto kLast = static_cast<std::uint32_t>(Operation::kImportMr);
  for (std::uint32_t operation = 2; operation <= kLast; ++operation)
    for (std::size_t length = 0; length < 260; ++length) {
      // Bytes that are often small, so that some handles and counts are right.
      body.resize(length);
      for (std::byte& byte : body)
        byte = static_cast<std::byte>(random() % 3 != 0   ? 0
                                      : random() % 4 != 0 ? random() % 4
                                                          : random());
      if (wild->send(static_cast<Operation>(operation), body)) {
        EXPECT_GE(wild->receive(reply), 0);
        continue;
      }
      wild = std::make_unique<Client>(daemon, 1);
      EXPECT_EQ(wild->greet(), 0);
    }
  wild.reset();
  EXPECT_EQ(client.greet(), 0) << "the daemon serves others";
}

TEST_F(SessionTest, TheWakeupEventfdIsNeverRead) {
  ASSERT_EQ(client.greet(), 0);
  client.keep_descriptors();
  const int wake = client.kept(1);
  // As by a process that wants the daemon to wait for it: a read of an empty one would block.
  ASSERT_EQ(::fcntl(wake, F_SETFL, 0), 0);
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(wake, &one, sizeof one), 8);
    ::usleep(20000);  // for the engine to see it
  }
  std::uint64_t count = 0;
  pollfd state{wake, POLLIN, 0};
  ASSERT_EQ(::poll(&state, 1, 0), 1);
  ASSERT_EQ(::read(wake, &count, sizeof count), 8);
  EXPECT_EQ(count, 3u);
}

TEST(ChannelsOfATenant, ThoseThatAreClosedMakeRoom) {
  configuration::Config config = small_config();
  config.tenants[0].limits[configuration::Kind::kDescriptors] = 50;
  Daemon daemon(config);
  Client client(daemon);
  ASSERT_EQ(client.greet(), 0);
  for (int i = 0; i < 500; ++i)  // each is closed with the next answer
    ASSERT_EQ(client.ask(Operation::kCreateChannel, abi::HandleBody{}), 0) << i;
}

TEST(ProcessMemoryOfATenant, IsOfferedByItsProcess) {
  Daemon daemon(small_config());
  Client client(daemon);
  abi::HelloReply reply{};
  ASSERT_EQ(client.ask(Operation::kHello,
                       abi::HelloRequest{abi::kSessionMagic, {abi::kAbiVersion, 0}}, &reply),
            0);
  struct {
    abi::RegisterMrRequest head{};
    abi::MrExtent extent{};
  } request;
  request.head.pd = client.make(Operation::kAllocPd);
  request.head.extents = 1;
  request.head.addr = request.extent.addr = reinterpret_cast<std::uintptr_t>(&request);
  request.head.length = request.extent.length = sizeof request;
  request.extent.kind = static_cast<std::uint32_t>(abi::ExtentKind::kProcess);
  client.offers = false;
  EXPECT_EQ(client.ask(Operation::kRegisterMr, request), EOPNOTSUPP);
  EXPECT_EQ(client.offer_memory(), 0);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, request), 0);
}

TEST(ProcessMemoryOfATenant, SocketLostByTheProcess_AnotherOneServes) {
  Daemon daemon(small_config());
  Client client(daemon);
  ASSERT_EQ(client.greet(), 0);
  client.offers = false;
  const std::uint64_t taken =
      daemon.adapter.tenants[0]->control.accounts.in_use(configuration::Kind::kDescriptors);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(client.ask<std::byte>(Operation::kOfferMemory, abi::HandleBody{}), 0);
    client.take_descriptors().clear();
  }
  EXPECT_LE(daemon.adapter.tenants[0]->control.accounts.in_use(configuration::Kind::kDescriptors),
            taken + 1);
  EXPECT_EQ(client.offer_memory(), 0);
  struct {
    abi::RegisterMrRequest head{};
    abi::MrExtent extent{};
  } request;
  request.head.pd = client.make(Operation::kAllocPd);
  request.head.extents = 1;
  request.head.addr = request.extent.addr = reinterpret_cast<std::uintptr_t>(&request);
  request.head.length = request.extent.length = sizeof request;
  request.extent.kind = static_cast<std::uint32_t>(abi::ExtentKind::kProcess);
  EXPECT_EQ(client.ask(Operation::kRegisterMr, request), 0);
  EXPECT_EQ(client.offer_memory(), EINVAL) << "a region uses it";
}

TEST(ProcessMemoryOfATenant, WhatComesInItsPlaceIsNotClosedByTheControlThread) {
  Daemon daemon(small_config());
  Client client(daemon);
  ASSERT_EQ(client.greet(), 0);
  ASSERT_EQ(client.ask<std::byte>(Operation::kOfferMemory, abi::HandleBody{}), 0);
  auto sockets = client.take_descriptors();
  ASSERT_EQ(sockets.size(), 1u);
  Lingering lingering(1000);
  const int passed = lingering.get();
  const std::byte byte{};
  ASSERT_EQ(send_with_descriptors(sockets[0].get(), {&byte, 1}, {&passed, 1}), 1);
  lingering.let_go();
  sockets.clear();
  client.end();  // would take as long as the close of what was passed
  EXPECT_NE(daemon.adapter.blocking_calls.waiting(), 0u);
  lingering.end();
  while (daemon.adapter.blocking_calls.waiting() != 0) std::this_thread::yield();
}

TEST(ProcessMemoryOfATenant, CanBeRefused) {
  for (const bool allowed : {true, false}) {
    configuration::Config config = small_config();
    config.tenants[0].programs.process_memory = allowed;
    Daemon daemon(config);
    Client client(daemon);
    ASSERT_EQ(client.greet(), 0);
    struct {
      abi::RegisterMrRequest head{};
      abi::MrExtent extent{};
    } request;
    const auto at = reinterpret_cast<std::uint64_t>(&request);
    request.head.pd = client.make(Operation::kAllocPd);
    request.head.extents = 1;
    request.head.addr = request.head.iova = request.extent.addr = at;
    request.head.length = request.extent.length = sizeof request;
    request.extent.kind = static_cast<std::uint32_t>(abi::ExtentKind::kProcess);
    EXPECT_EQ(client.ask(Operation::kRegisterMr, request), allowed ? 0 : EOPNOTSUPP);
    EXPECT_EQ(client.offer_memory(), allowed ? EINVAL : EOPNOTSUPP) << "it has been offered";
  }
}

}  // namespace
}  // namespace softhca::control
