// SPDX-License-Identifier: Apache-2.0

// Domains and targets of the extended reliable connected (XRC) service: which processes share them,
// and which replies a hostile process gets.
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

constexpr std::uint32_t kXrcSend = 9;
constexpr std::uint32_t kXrcReceive = 10;

class XrcTest : public ::testing::Test {
 protected:
  XrcTest() {
    for (Client* c : {&client, &second, &stranger}) EXPECT_EQ(c->greet(), 0);
  }

  static int open(Client& c, std::uint64_t inode, std::uint32_t flags, std::uint32_t& handle) {
    abi::HandleBody out{};
    const int error = c.ask(Operation::kOpenXrcDomain,
                            abi::OpenXrcDomainRequest{1, inode, abi::kXrcOfFile | flags, 0}, &out);
    handle = out.handle;
    return error;
  }
  std::uint32_t domain_of(Client& c, std::uint64_t inode = 5) {
    std::uint32_t handle = 0;
    EXPECT_EQ(open(c, inode, abi::kXrcCreate, handle), 0);
    return handle;
  }
  static int make_target(Client& c, std::uint32_t domain, std::uint32_t& qpn) {
    abi::CreateQpReply out{};
    const int error = c.ask(
        Operation::kCreateQp,
        abi::CreateQpRequest{.user_handle = 77, .type = kXrcReceive, .xrc_domain = domain}, &out);
    qpn = out.qpn;
    return error;
  }
  static int open_target(Client& c, std::uint32_t domain, std::uint32_t qpn,
                         std::uint32_t* handle = nullptr) {
    abi::HandleBody out{};
    const int error = c.ask(Operation::kOpenQp, abi::OpenQpRequest{78, domain, qpn}, &out);
    if (handle != nullptr) *handle = out.handle;
    return error;
  }
  static int end(Client& c, Operation operation, std::uint32_t handle) {
    return c.ask(operation, abi::HandleBody{handle, 0});
  }
  static int to_init(Client& c, std::uint32_t qpn) {
    abi::ModifyQpRequest request{.qpn = qpn, .send_sequence = 0, .attributes = {}};
    request.attributes.mask = engine::attr::kState | engine::attr::kPkeyIndex |
                              engine::attr::kPort | engine::attr::kAccessFlags;
    request.attributes.qp_state = 1;
    request.attributes.port_num = 1;
    return c.ask(Operation::kModifyQp, request);
  }
  static std::uint32_t make_cq(Client& c) {
    abi::CreateCqReply out{};
    EXPECT_EQ(c.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}, &out), 0);
    return out.handle;
  }

  Daemon daemon;
  Client client{daemon};
  Client second{daemon};
  Client stranger{daemon, 1};
};

TEST_F(XrcTest, DomainOfAFileIsMadeAndSharedAsAsked) {
  std::uint32_t handle = 0;
  EXPECT_EQ(open(client, 5, 0, handle), EAGAIN);
  EXPECT_EQ(open(client, 5, abi::kXrcCreate | abi::kXrcExclusive, handle), 0);
  EXPECT_EQ(open(second, 5, abi::kXrcCreate | abi::kXrcExclusive, handle), EINVAL);
  EXPECT_EQ(open(second, 5, 0, handle), 0);
  EXPECT_EQ(open(second, 6, 0, handle), EAGAIN);
  EXPECT_EQ(open(stranger, 5, 0, handle), EAGAIN) << "of another tenant";
  EXPECT_EQ(open(client, 5, 8, handle), EINVAL) << "an unknown flag";
  // The domain ends when the last process closes it.
  EXPECT_EQ(end(client, Operation::kCloseXrcDomain, 0), 0);
  EXPECT_EQ(end(client, Operation::kCloseXrcDomain, 0), EINVAL);
  EXPECT_EQ(open(client, 5, 0, handle), 0);
  EXPECT_EQ(end(client, Operation::kCloseXrcDomain, handle), 0);
  second.end();
  EXPECT_EQ(open(client, 5, 0, handle), EAGAIN);
}

TEST_F(XrcTest, TargetsBelongToTheirDomain) {
  const std::uint32_t mine = domain_of(client);
  const std::uint32_t other = domain_of(client, 6);
  std::uint32_t qpn = 0;
  EXPECT_EQ(make_target(client, mine + 7, qpn), EINVAL);
  ASSERT_EQ(make_target(client, mine, qpn), 0);
  EXPECT_EQ(end(client, Operation::kCloseXrcDomain, mine), EBUSY);
  EXPECT_EQ(open_target(client, other, qpn), EINVAL);
  EXPECT_EQ(open_target(client, mine, qpn + 1), EINVAL);
  EXPECT_EQ(open_target(client, mine + 7, qpn), EINVAL);
  EXPECT_EQ(open_target(stranger, domain_of(stranger), qpn), EINVAL);
  EXPECT_EQ(to_init(second, qpn), EINVAL) << "not opened";
  EXPECT_EQ(end(client, Operation::kCloseQp, 0), EINVAL) << "made, not opened";
  EXPECT_EQ(end(client, Operation::kDestroyQp, qpn), 0);
  EXPECT_EQ(open_target(client, mine, qpn), EINVAL);
  EXPECT_EQ(end(client, Operation::kCloseXrcDomain, mine), 0);
}

TEST_F(XrcTest, TargetLivesUntilTheLastLetsGo) {
  std::uint32_t qpn = 0, opened = 0, again = 0;
  ASSERT_EQ(make_target(client, domain_of(client), qpn), 0);
  const std::uint32_t domain = domain_of(second);
  ASSERT_EQ(open_target(second, domain, qpn, &opened), 0);
  ASSERT_EQ(open_target(second, domain, qpn, &again), 0);
  EXPECT_EQ(to_init(second, qpn), 0);
  client.end();
  abi::QueryQpReply reply{};
  ASSERT_EQ(second.ask(Operation::kQueryQp, abi::HandleBody{qpn, 0}, &reply), 0);
  EXPECT_EQ(reply.attributes.qp_state, 1u);
  EXPECT_EQ(end(second, Operation::kCloseQp, opened), 0);
  EXPECT_EQ(end(second, Operation::kCloseQp, opened), EINVAL);
  EXPECT_EQ(second.ask(Operation::kQueryQp, abi::HandleBody{qpn, 0}, &reply), 0);
  EXPECT_EQ(end(second, Operation::kCloseXrcDomain, domain), EBUSY);
  EXPECT_EQ(end(second, Operation::kCloseQp, again), 0);
  EXPECT_EQ(second.ask(Operation::kQueryQp, abi::HandleBody{qpn, 0}), EINVAL);
  EXPECT_EQ(end(second, Operation::kCloseXrcDomain, domain), 0);
  EXPECT_EQ(daemon.adapter.tenants[0]->counters.queue_pairs.value(), 0u);
}

TEST_F(XrcTest, SharedReceiveQueuesHaveDomainAndCompletionQueue) {
  const std::uint32_t domain = domain_of(client);
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const std::uint32_t cq = make_cq(client);
  const auto make = [&](std::uint32_t its_domain, std::uint32_t its_cq, abi::CreateSrqReply* out) {
    const abi::CreateSrqRequest plain{1, pd, 4, 1, 0};
    return client.ask(Operation::kCreateSrq, abi::CreateXrcSrqRequest{plain, its_domain, its_cq},
                      out);
  };
  EXPECT_EQ(make(domain + 1, cq, nullptr), EINVAL);
  EXPECT_EQ(make(domain, cq + 1, nullptr), EINVAL);
  EXPECT_EQ(make(abi::kNoHandle, cq, nullptr), EINVAL);
  abi::CreateSrqReply srq{};
  ASSERT_EQ(make(domain, cq, &srq), 0);
  EXPECT_NE(srq.number, 0u);
  EXPECT_LT(srq.number, 1u << 24);
  EXPECT_EQ(end(client, Operation::kDestroyCq, cq), EBUSY);
  EXPECT_EQ(end(client, Operation::kCloseXrcDomain, domain), EBUSY);
  EXPECT_EQ(end(client, Operation::kDestroySrq, srq.handle), 0);
  EXPECT_EQ(end(client, Operation::kDestroyCq, cq), 0);
  EXPECT_EQ(end(client, Operation::kCloseXrcDomain, domain), 0);
}

TEST_F(XrcTest, InitiatorsHaveNothingToReceiveBy) {
  const std::uint32_t pd = client.make(Operation::kAllocPd);
  const std::uint32_t cq = make_cq(client);
  abi::CreateQpRequest request{.user_handle = 1,
                               .pd = pd,
                               .type = kXrcSend,
                               .send_cq = cq,
                               .receive_cq = cq,
                               .srq = abi::kNoHandle,
                               .max_send_wr = 4};
  EXPECT_EQ(client.ask(Operation::kCreateQp, request), EINVAL);
  request.receive_cq = abi::kNoHandle;
  abi::CreateQpReply made{};
  ASSERT_EQ(client.ask(Operation::kCreateQp, request, &made), 0);
  EXPECT_EQ(made.receive_entries, 0u);
  EXPECT_EQ(open_target(client, domain_of(client), made.qpn), EINVAL) << "not a target";
  EXPECT_EQ(to_init(client, made.qpn), 0);
  EXPECT_EQ(end(client, Operation::kDestroyQp, made.qpn), 0);
  EXPECT_EQ(end(client, Operation::kDestroyCq, cq), 0);
}

TEST_F(XrcTest, LimitsCountDomainsAndTargets) {
  configuration::Accounts& mine = daemon.adapter.tenants[0]->control.accounts;
  const std::uint32_t domain = domain_of(client);
  std::uint32_t qpn = 0, handle = 0;
  mine.set_limit(configuration::Kind::kProtectionDomains, 1);
  EXPECT_EQ(open(client, 7, abi::kXrcCreate, handle), ENOMEM);
  mine.set_limit(configuration::Kind::kQueuePairs, 2);
  EXPECT_EQ(make_target(client, domain, qpn), 0);
  EXPECT_EQ(open_target(client, domain, qpn), 0);
  EXPECT_EQ(open_target(client, domain, qpn), ENOMEM);
  EXPECT_EQ(make_target(client, domain, qpn), ENOMEM);
}

TEST(XrcHolders, TargetHas1024Holders_NoMoreMayOpenIt) {
  configuration::Config config = small_config();
  config.pools.queue_pairs = 4096;
  for (configuration::TenantConfig& tenant : config.tenants)
    tenant.limits = configuration::totals_of(config.pools);
  Daemon daemon(config);
  Client client(daemon);
  ASSERT_EQ(client.greet(), 0);
  abi::HandleBody domain{}, opened{};
  ASSERT_EQ(client.ask(Operation::kOpenXrcDomain, abi::OpenXrcDomainRequest{}, &domain), 0);
  abi::CreateQpReply target{};
  ASSERT_EQ(
      client.ask(Operation::kCreateQp,
                 abi::CreateQpRequest{.type = kXrcReceive, .xrc_domain = domain.handle}, &target),
      0);
  const abi::OpenQpRequest open{1, domain.handle, target.qpn};
  for (int i = 1; i < 1024; ++i) ASSERT_EQ(client.ask(Operation::kOpenQp, open, &opened), 0) << i;
  EXPECT_EQ(client.ask(Operation::kOpenQp, open), ENOMEM);
  EXPECT_EQ(client.ask(Operation::kCloseQp, opened), 0);
  EXPECT_EQ(client.ask(Operation::kOpenQp, open, &opened), 0);
}

}  // namespace
}  // namespace softhca::control
