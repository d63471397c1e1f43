// SPDX-License-Identifier: Apache-2.0

// Sessions that share protection domains and regions: which processes may join, how long objects
// live, and which replies a hostile process gets. Also regions with on-demand paging.
#include <sys/mman.h>

#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

using configuration::Kind;

constexpr std::uint32_t kOnDemand = 1 << 6;

struct Registration {
  abi::RegisterMrRequest head;
  abi::MrExtent extent;
};

Registration registration(std::uint32_t pd, std::uint64_t addr, std::uint64_t bytes,
                          std::uint32_t access = memory::kLocalWrite) {
  return {{addr, bytes, addr, access, pd, 1, 0}, {addr, bytes, 0, 0, 0}};
}

class SharingTest : public ::testing::Test {
 protected:
  SharingTest() {
    for (Client* c : {&first, &second, &third}) EXPECT_EQ(c->greet(), 0);
  }

  static abi::ContextToken token_of(Client& c) {
    abi::ContextToken token{};
    EXPECT_EQ(c.ask(Operation::kShareContext, abi::HandleBody{}, &token), 0);
    return token;
  }
  static int join(Client& c, const abi::ContextToken& token) {
    return c.ask(Operation::kJoinContext, token);
  }
  static int end(Client& c, Operation operation, std::uint32_t handle) {
    return c.ask(operation, abi::HandleBody{handle, 0});
  }
  static abi::RegisterMrReply make_mr(Client& c, std::uint32_t pd, const void* memory = kMemory,
                                      std::uint64_t bytes = sizeof kMemory) {
    abi::RegisterMrReply reply{};
    const auto addr = reinterpret_cast<std::uintptr_t>(memory);
    EXPECT_EQ(c.ask(Operation::kRegisterMr, registration(pd, addr, bytes), &reply), 0);
    return reply;
  }
  static int find_mr(Client& c, std::uint32_t handle, abi::ImportMrReply& out) {
    return c.ask(Operation::kImportMr, abi::HandleBody{handle, 0}, &out);
  }
  std::uint64_t in_use(Kind kind) {
    return daemon.adapter.tenants[0]->control.accounts.in_use(kind);
  }

  static constexpr char kMemory[100] = "of the process that runs the test";

  Daemon daemon;
  Client first{daemon};
  Client second{daemon};
  Client third{daemon};
};

TEST_F(SharingTest, OneHasTheOthersDomainsAndRegionsByTheSameHandles) {
  first.make(Operation::kAllocPd);
  const std::uint32_t pd = first.make(Operation::kAllocPd);
  const abi::RegisterMrReply mr = make_mr(first, pd);
  EXPECT_EQ(end(second, Operation::kImportPd, pd), EINVAL) << "not yet";
  ASSERT_EQ(join(second, token_of(first)), 0);
  EXPECT_EQ(end(second, Operation::kImportPd, pd), 0);
  EXPECT_EQ(end(second, Operation::kImportPd, pd + 1), EINVAL);
  abi::ImportMrReply found{};
  ASSERT_EQ(find_mr(second, mr.handle, found), 0);
  EXPECT_EQ(found.lkey, mr.lkey);
  EXPECT_EQ(found.rkey, mr.rkey);
  EXPECT_EQ(found.length, sizeof kMemory);
  EXPECT_EQ(found.iova, reinterpret_cast<std::uintptr_t>(kMemory));
  EXPECT_EQ(found.access, memory::kLocalWrite);
  EXPECT_EQ(find_mr(second, mr.handle + 1, found), EINVAL);
  // What either makes the other has, too, and either may end it.
  const std::uint32_t later = second.make(Operation::kAllocPd);
  EXPECT_EQ(end(first, Operation::kImportPd, later), 0);
  EXPECT_EQ(end(first, Operation::kDeallocPd, later), 0);
  EXPECT_EQ(end(second, Operation::kImportPd, later), EINVAL);
  EXPECT_EQ(end(second, Operation::kDeregisterMr, mr.handle), 0);
  EXPECT_EQ(end(first, Operation::kDeregisterMr, mr.handle), EINVAL);
  EXPECT_EQ(end(first, Operation::kDeallocPd, pd), 0);
}

TEST_F(SharingTest, NullRegionsAreFoundWithoutAKeyForPeers) {
  const std::uint32_t pd = first.make(Operation::kAllocPd);
  abi::RegisterMrReply mr{};
  ASSERT_EQ(first.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}, &mr), 0);
  abi::ImportMrReply found{};
  ASSERT_EQ(find_mr(first, mr.handle, found), 0);
  EXPECT_EQ(found.lkey, mr.lkey);
  EXPECT_EQ(found.rkey, 0u);
}

TEST_F(SharingTest, OnlyTheUsersOwnProcessesJoinAndOnlyWithTheToken) {
  const abi::ContextToken token = token_of(first);
  EXPECT_EQ(std::memcmp(token_of(first).bytes, token.bytes, sizeof token), 0) << "always the same";
  EXPECT_NE(std::memcmp(token_of(second).bytes, token.bytes, sizeof token), 0);
  Client of_another_tenant(daemon, 1);
  Client of_another_user(daemon, 0, ::getuid() + 1);
  for (Client* c : {&of_another_tenant, &of_another_user}) {
    ASSERT_EQ(c->greet(), 0);
    EXPECT_EQ(join(*c, token), EACCES);
    EXPECT_EQ(end(*c, Operation::kImportPd, first.make(Operation::kAllocPd)), EINVAL);
  }
  for (std::size_t i = 0; i < sizeof token; ++i) {
    abi::ContextToken wrong = token;
    wrong.bytes[i] ^= 1;
    EXPECT_EQ(join(second, wrong), EACCES);
  }
  EXPECT_EQ(join(second, {}), EACCES);
  EXPECT_EQ(second.ask(Operation::kJoinContext, abi::HandleBody{}), EINVAL);
  EXPECT_EQ(second.ask(Operation::kShareContext, abi::HandleBody{1, 0}), EINVAL);
  EXPECT_EQ(join(second, token), 0);
  EXPECT_EQ(join(second, token), EBUSY) << "there are domains by now";
}

TEST_F(SharingTest, WhoHasObjectsOfItsOwnCannotJoin) {
  const std::uint32_t pd = second.make(Operation::kAllocPd);
  EXPECT_EQ(join(second, token_of(first)), EBUSY);
  EXPECT_EQ(end(second, Operation::kDeallocPd, pd), 0);
  EXPECT_EQ(join(second, token_of(first)), 0);
}

TEST_F(SharingTest, WhoHasBeenJoinedCannotJoin) {
  EXPECT_EQ(join(second, token_of(first)), 0);
  EXPECT_EQ(join(first, token_of(third)), EBUSY);
}

TEST_F(SharingTest, ObjectsLiveUntilTheLastLeaves) {
  const std::uint32_t pd = first.make(Operation::kAllocPd);
  const abi::RegisterMrReply mr = make_mr(first, pd);
  const abi::ContextToken token = token_of(first);
  ASSERT_EQ(join(second, token), 0);
  first.end();
  abi::ImportMrReply found{};
  EXPECT_EQ(find_mr(second, mr.handle, found), 0);
  EXPECT_EQ(daemon.engine.keys().size(), 1u);
  ASSERT_EQ(join(third, token), 0) << "by way of the second";
  second.end();
  EXPECT_EQ(find_mr(third, mr.handle, found), 0);
  EXPECT_EQ(in_use(Kind::kRegisteredBytes), sizeof kMemory);
  third.end();
  EXPECT_EQ(daemon.engine.keys().size(), 0u);
  EXPECT_EQ(daemon.adapter.tenants[0]->counters.memory.registered_bytes.value(), 0u);
  for (const Kind kind :
       {Kind::kRegisteredBytes, Kind::kMemoryRegions, Kind::kProtectionDomains, Kind::kDescriptors})
    EXPECT_EQ(in_use(kind), 0u);
  Client late(daemon);
  ASSERT_EQ(late.greet(), 0);
  EXPECT_EQ(join(late, token), EACCES) << "the token has ended, too";
}

TEST_F(SharingTest, ADomainIsInUseAsLongAsAnyOfThemUsesIt) {
  const std::uint32_t pd = first.make(Operation::kAllocPd);
  ASSERT_EQ(join(second, token_of(first)), 0);
  abi::CreateCqReply cq{};
  ASSERT_EQ(second.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}, &cq), 0);
  const abi::CreateQpRequest request{.pd = pd,
                                     .type = 2,
                                     .send_cq = cq.handle,
                                     .receive_cq = cq.handle,
                                     .srq = abi::kNoHandle,
                                     .max_send_wr = 1,
                                     .max_receive_wr = 1};
  ASSERT_EQ(second.ask(Operation::kCreateQp, request), 0);
  ASSERT_EQ(second.ask(Operation::kCreateSrq, abi::CreateSrqRequest{1, pd, 4, 1, 0}), 0);
  ASSERT_EQ(second.ask(Operation::kAllocWindow, abi::AllocWindowRequest{pd, 2}), 0);
  abi::CreateAhRequest ah{.pd = pd, .av = {.is_global = 1, .port_num = 1}};
  std::memcpy(ah.av.dgid, daemon.config.tenants[0].addresses[0].bytes.data(), 16);
  ASSERT_EQ(second.ask(Operation::kCreateAh, ah), 0);
  EXPECT_EQ(end(first, Operation::kDeallocPd, pd), EBUSY);
  second.end();
  EXPECT_EQ(end(first, Operation::kDeallocPd, pd), 0) << "what used it has gone";
}

/// A process that registers and ends, over and over, in a context that another keeps: what stays
/// behind counts.
TEST_F(SharingTest, WhatTheDeadLeaveBehindIsLimited) {
  const std::uint32_t pd = first.make(Operation::kAllocPd);
  const abi::ContextToken token = token_of(first);
  const std::uint64_t before = in_use(Kind::kDescriptors);
  for (std::uint64_t left = 1; left <= 5; ++left) {
    Client brief(daemon);
    ASSERT_EQ(brief.greet(), 0);
    ASSERT_EQ(join(brief, token), 0);
    make_mr(brief, pd);
    brief.end();
    EXPECT_EQ(in_use(Kind::kMemoryRegions), left);
    EXPECT_EQ(in_use(Kind::kDescriptors), before + left) << "of the memory of its process";
  }
}

/// A region belongs to the memory of the process that last changed its translation. A process with
/// memory out of the daemon's reach may not name addresses in the memory of another process.
TEST_F(SharingTest, ARegionThatMovesIsOfTheProcessThatMovesIt) {
  const std::uint32_t pd = first.make(Operation::kAllocPd);
  const abi::RegisterMrReply mr = make_mr(first, pd);
  daemon.reconfigure([](auto& tenant) { tenant.programs.process_memory = false; });
  Client unreached(daemon);
  ASSERT_EQ(unreached.greet(), 0);
  ASSERT_EQ(join(unreached, token_of(first)), 0);
  struct {
    std::uint32_t handle;
    std::uint32_t flags;
    Registration region;
  } request{mr.handle, kChangeTranslation,
            registration(0, reinterpret_cast<std::uintptr_t>(kMemory), 8)};
  EXPECT_EQ(unreached.ask(Operation::kReregisterMr, request), EOPNOTSUPP);
  EXPECT_EQ(first.ask(Operation::kReregisterMr, request), 0);
}

class OnDemandTest : public SharingTest {
 protected:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  int add(Client& c, const Registration& request, abi::RegisterMrReply* out = nullptr) {
    return c.ask(Operation::kRegisterMr, request, out);
  }
  std::uint32_t pd = first.make(Operation::kAllocPd);
};

TEST_F(OnDemandTest, IsOfferedWhereTheProcessIsReached) {
  abi::DeviceReply device{};
  ASSERT_EQ(first.ask(Operation::kQueryDevice, abi::HandleBody{}, &device), 0);
  EXPECT_NE(device.capabilities & abi::kCanReachProcess, 0u);
  EXPECT_NE(device.capabilities & abi::kCanResizeSrq, 0u);
  daemon.reconfigure([](auto& tenant) { tenant.programs.process_memory = false; });
  Client unreached(daemon);
  ASSERT_EQ(unreached.greet(), 0);
  ASSERT_EQ(unreached.ask(Operation::kQueryDevice, abi::HandleBody{}, &device), 0);
  EXPECT_EQ(device.capabilities & abi::kCanReachProcess, 0u);
  const std::uint32_t its_pd = unreached.make(Operation::kAllocPd);
  EXPECT_EQ(add(unreached, registration(its_pd, 0, kAll, kOnDemand)), EOPNOTSUPP);
}

TEST_F(OnDemandTest, ARegionOfAllAddressesCountsNoBytes) {
  abi::RegisterMrReply mr{};
  ASSERT_EQ(add(first, registration(pd, 0, kAll, kOnDemand | memory::kLocalWrite), &mr), 0);
  EXPECT_EQ(in_use(Kind::kRegisteredBytes), 0u);
  EXPECT_EQ(in_use(Kind::kMemoryRegions), 1u);
  abi::ImportMrReply found{};
  ASSERT_EQ(find_mr(first, mr.handle, found), 0);
  EXPECT_EQ(found.access, kOnDemand | memory::kLocalWrite);
  EXPECT_EQ(end(first, Operation::kDeregisterMr, mr.handle), 0);
  EXPECT_EQ(daemon.adapter.tenants[0]->counters.memory.registered_bytes.value(), 0u);
  // None but such a one is free.
  EXPECT_EQ(add(first, registration(pd, 0, kAll, memory::kLocalWrite)), ENOMEM);
  EXPECT_EQ(add(first, registration(pd, 0, kAll - 1, kOnDemand)), ENOMEM);
  EXPECT_EQ(add(first, registration(pd, 1, kAll, kOnDemand)), EINVAL);
}

TEST_F(OnDemandTest, ARegionOfAllAddressesMayNotHaveSharedParts) {
  abi::AllocSharedReply shared{};
  ASSERT_EQ(first.ask(Operation::kAllocShared, abi::AllocSharedRequest{abi::kPageBytes}, &shared),
            0);
  struct {
    abi::RegisterMrRequest head;
    abi::MrExtent extents[2];
  } request{{0, kAll, 0, kOnDemand, pd, 2, 0},
            {{0, abi::kPageBytes, 0, shared.handle, 1},
             {abi::kPageBytes, kAll - abi::kPageBytes, 0, 0, 0}}};
  EXPECT_EQ(first.ask(Operation::kRegisterMr, request), ENOMEM);
}

TEST_F(OnDemandTest, BytesAreCountedAnewWhenARegionChanges) {
  abi::RegisterMrReply mr{};
  ASSERT_EQ(add(first, registration(pd, 0, kAll, kOnDemand | memory::kLocalWrite), &mr), 0);
  struct {
    std::uint32_t handle;
    std::uint32_t flags;
    Registration region;
  } request{mr.handle, kChangeTranslation, registration(0, 4096, 100)};
  ASSERT_EQ(first.ask(Operation::kReregisterMr, request), 0);
  EXPECT_EQ(in_use(Kind::kRegisteredBytes), 100u);
  request.region = registration(0, 0, kAll);
  ASSERT_EQ(first.ask(Operation::kReregisterMr, request), 0);
  EXPECT_EQ(in_use(Kind::kRegisteredBytes), 0u);
  EXPECT_EQ(daemon.adapter.tenants[0]->counters.memory.registered_bytes.value(), 0u);
}

/// An access reaches the pages that are mapped at the time of the access, not of the registration.
TEST_F(OnDemandTest, FollowsTheAddressSpace) {
  abi::RegisterMrReply mr{};
  ASSERT_EQ(add(first, registration(pd, 0, kAll, kOnDemand | memory::kLocalWrite), &mr), 0);
  const auto map = [](void* at, int flags) {
    return ::mmap(at, abi::kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
                  -1, 0);
  };
  auto* const page = static_cast<char*>(map(nullptr, 0));
  const auto get = [&](std::string& out) {
    Verdict verdict{};
    daemon.worker.run(engine::Task{[&](engine::Engine& engine) {
      verdict = memory::read(*engine.keys().lookup(mr.lkey), reinterpret_cast<std::uintptr_t>(page),
                             std::as_writable_bytes(std::span(out)));
    }});
    return verdict;
  };
  std::strcpy(page, "before");
  std::string seen(6, ' ');
  EXPECT_EQ(get(seen), Verdict::kOk);
  EXPECT_EQ(seen, "before");
  ::munmap(page, abi::kPageBytes);
  EXPECT_EQ(get(seen), Verdict::kLocalProtection);
  ASSERT_EQ(map(page, MAP_FIXED), page);
  std::strcpy(page, "after.");
  EXPECT_EQ(get(seen), Verdict::kOk);
  EXPECT_EQ(seen, "after.");
  ::munmap(page, abi::kPageBytes);
}

}  // namespace
}  // namespace softhca::control
