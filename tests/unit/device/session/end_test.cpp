// SPDX-License-Identifier: Apache-2.0

// The end of a session that has much: in turns, each of which takes back a few objects.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

using configuration::Kind;

constexpr std::uint32_t kRc = 2, kXrcTarget = 10;
constexpr std::uint64_t kEach = 100;

class EndOfASession : public ::testing::Test {
 protected:
  static configuration::Config config() {
    configuration::Config config = small_config();
    config.pools.queue_pairs = config.pools.memory_regions = config.pools.memory_windows = 1024;
    config.pools.completion_queues = config.pools.shared_receive_queues = 1024;
    config.pools.protection_domains = config.pools.address_handles = 1024;
    for (configuration::TenantConfig& tenant : config.tenants)
      tenant.limits = configuration::totals_of(config.pools);
    return config;
  }
  ~EndOfASession() override {
    configuration::for_each_kind(
        [&](Kind kind) { EXPECT_EQ(in_use(kind), 0u) << configuration::name_of(kind); });
    EXPECT_EQ(daemon.engine.keys().size(), 0u);
    EXPECT_EQ(daemon.adapter.tenants[0]->counters.queue_pairs.value(), 0u);
    EXPECT_EQ(daemon.adapter.tenants[0]->counters.sessions.value(), 0u);
  }

  std::uint64_t in_use(Kind kind) const {
    return daemon.adapter.tenants[0]->control.accounts.in_use(kind);
  }
  static std::uint32_t make_cq(Client& client) {
    abi::CreateCqReply made{};
    EXPECT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 4, abi::kNoHandle}, &made),
              0);
    return made.handle;
  }
  /// `kEach` objects of each kind.
  static void make_all(Client& client) {
    const std::uint32_t pd = client.make(Operation::kAllocPd), cq = make_cq(client);
    abi::OpenXrcDomainRequest of_file{1, 5, abi::kXrcOfFile | abi::kXrcCreate, 0};
    abi::HandleBody domain{};
    ASSERT_EQ(client.ask(Operation::kOpenXrcDomain, of_file, &domain), 0);
    abi::CreateAhRequest to_itself{};
    to_itself.pd = pd;
    to_itself.av.is_global = to_itself.av.port_num = 1;
    std::memcpy(to_itself.av.dgid, Gid::from_ipv4(0xc6120001).bytes.data(), 16);
    const abi::CreateQpRequest qp{.user_handle = 7,
                                  .pd = pd,
                                  .type = kRc,
                                  .send_cq = cq,
                                  .receive_cq = cq,
                                  .srq = abi::kNoHandle,
                                  .max_send_wr = 1,
                                  .max_receive_wr = 1,
                                  .max_send_sge = 1,
                                  .max_receive_sge = 1};
    const abi::CreateXrcSrqRequest srq{
        .srq = {.user_handle = 1, .pd = pd, .max_wr = 1, .max_sge = 1, .limit = 0},
        .xrc_domain = domain.handle,
        .cq = cq};
    for (std::uint64_t i = 0; i < kEach; ++i) {
      ASSERT_EQ(client.ask(Operation::kCreateQp, qp), 0);
      ASSERT_EQ(client.ask(Operation::kCreateQp,
                           abi::CreateQpRequest{
                               .user_handle = i, .type = kXrcTarget, .xrc_domain = domain.handle}),
                0);
      ASSERT_EQ(client.ask(Operation::kCreateAh, to_itself), 0);
      ASSERT_EQ(client.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}), 0);
      ASSERT_EQ(client.ask(Operation::kAllocWindow, abi::AllocWindowRequest{pd, 1}), 0);
      ASSERT_EQ(client.ask(Operation::kAllocPd, abi::HandleBody{}), 0);
      ASSERT_EQ(client.ask(Operation::kCreateSrq, srq), 0);
      make_cq(client);
      ASSERT_EQ(client.ask(Operation::kAllocShared, abi::AllocSharedRequest{4096}), 0);
    }
  }

  Daemon daemon{config()};
};

TEST_F(EndOfASession, WithManyObjects_TakesBackAFewOfOneKindInEachTurn) {
  Client client(daemon);
  ASSERT_EQ(client.greet(), 0);
  make_all(client);
  std::map<Kind, std::uint64_t> before;
  configuration::for_each_kind([&](Kind kind) { before[kind] = in_use(kind); });
  ASSERT_GE(before[Kind::kQueuePairs], 2 * kEach);
  int turns = 0;
  for (bool over = false; !over; ++turns) {
    over = client.end_a_bit();
    for (auto& [kind, count] : before) {
      const std::uint64_t now = in_use(kind);
      EXPECT_LE(now, count) << configuration::name_of(kind);
      const bool counts_objects =
          kind != Kind::kRegisteredBytes && kind != Kind::kSharedBytes && kind != Kind::kQueueBytes;
      if (counts_objects) {
        EXPECT_LE(count - now, 16u) << configuration::name_of(kind);
      }
      count = now;
    }
  }
  EXPECT_GE(turns, static_cast<int>(8 * kEach / 16));
  EXPECT_EQ(in_use(Kind::kQueuePairs), 0u);
  EXPECT_EQ(in_use(Kind::kSharedBytes), 0u);
  client.end();
}

TEST_F(EndOfASession, OthersOfItsTenantMeanwhile_HaveTheirOwnObjects) {
  Client ending(daemon), living(daemon);
  ASSERT_EQ(ending.greet(), 0);
  ASSERT_EQ(living.greet(), 0);
  abi::ContextToken token{};
  ASSERT_EQ(ending.ask(Operation::kShareContext, abi::HandleBody{}, &token), 0);
  make_all(ending);
  EXPECT_FALSE(ending.end_a_bit());
  while (in_use(Kind::kMemoryRegions) == kEach) EXPECT_FALSE(ending.end_a_bit());
  EXPECT_EQ(living.ask(Operation::kJoinContext, token), EACCES) << "its regions are going";
  const std::uint32_t pd = living.make(Operation::kAllocPd);
  EXPECT_EQ(living.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}), 0);
  while (!ending.end_a_bit()) {
  }
  EXPECT_EQ(in_use(Kind::kMemoryRegions), 1u);
  EXPECT_EQ(living.ask(Operation::kAllocNullMr, abi::HandleBody{pd, 0}), 0);
  ending.end();
  living.end();
}

TEST_F(EndOfASession, TwoThatShareAContextAndEndInTurn_LeaveNothing) {
  for (const bool first_begins : {true, false}) {
    Client first(daemon), second(daemon);
    ASSERT_EQ(first.greet(), 0);
    ASSERT_EQ(second.greet(), 0);
    abi::ContextToken token{};
    ASSERT_EQ(first.ask(Operation::kShareContext, abi::HandleBody{}, &token), 0);
    ASSERT_EQ(second.ask(Operation::kJoinContext, token), 0);
    make_all(first);
    make_all(second);
    bool first_over = !first_begins && first.end_a_bit(), second_over = false;
    while (!first_over || !second_over) {
      if (!first_over) first_over = first.end_a_bit();
      if (!second_over) second_over = second.end_a_bit();
    }
    EXPECT_EQ(in_use(Kind::kMemoryRegions), 0u);
    EXPECT_EQ(in_use(Kind::kProtectionDomains), 0u);
    first.end();
    second.end();
  }
}

TEST_F(EndOfASession, DestroyedInTheMiddle_TakesBackTheRestAtOnce) {
  Client client(daemon);
  ASSERT_EQ(client.greet(), 0);
  make_all(client);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(client.end_a_bit());
  client.end();
  EXPECT_EQ(in_use(Kind::kMemoryRegions), 0u);
}

}  // namespace
}  // namespace softhca::control
