// SPDX-License-Identifier: Apache-2.0

// Tenants made of templates of the configuration.
#include "daemon/configuration/resource_manager/on_demand.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softhca::configuration {
namespace {

using testing::HasSubstr;
using Cause = AllocationRefusal::Cause;

Gid address(const char* text) { return *parse_address(text); }

/// The pool has 100 PCBs; `base` has 40. Each tenant of template `small` has 30 PCBs and one of two
/// addresses.
Config with_template() {
  Config config;
  config.daemon.runtime_dir = "/run/softhca";
  config.pools.tenants = 4;
  config.pools.pcbs = 104;
  config.pools.dedicated_pcbs = 4;
  TenantConfig& base = config.tenants.emplace_back();
  base.name = "base";
  base.addresses = {address("198.18.0.1")};
  base.pcbs = 40;
  base.tvls.resize(1);
  TenantConfig& small = config.templates.emplace_back();
  small.name = "small";
  small.addresses = {address("198.18.1.1"), address("198.18.1.2")};
  small.pcbs = 30;
  small.tvls.resize(2);
  return config;
}

TenantRequest of_small(const char* name) { return {.name = name, .template_name = "small"}; }

AllocationRefusal refusal_of(const Config& config, const TenantRequest& request,
                             std::span<const Gid> taken = {}, const Held& held = {}) {
  const AllocationResult result = with_tenant(config, request, taken, held);
  EXPECT_FALSE(result);
  return result ? AllocationRefusal{} : result.refusal();
}

TEST(OnDemand, ATenantIsLikeItsTemplateAndHasOneOfItsAddresses) {
  const Config config = with_template();
  const auto made = with_tenant(config, of_small("web"));
  ASSERT_TRUE(made);
  TenantConfig expected = config.templates[0];
  expected.name = "web";
  expected.addresses = {address("198.18.1.1")};
  ASSERT_EQ((*made).tenants.size(), 2u);
  EXPECT_EQ((*made).tenants[1], expected);
  Config without = *made;
  without.tenants.pop_back();
  EXPECT_EQ(without, config) << "all else stays";
}

TEST(OnDemand, AddressesAreGivenWhereNobodyHasThem) {
  Config config = with_template();
  config.tenants[0].addresses.push_back(address("198.18.1.1"));
  const auto made = with_tenant(config, of_small("web"));
  ASSERT_TRUE(made);
  EXPECT_EQ((*made).tenants[1].addresses, std::vector{address("198.18.1.2")});

  const std::vector<Gid> taken = {address("198.18.1.2")};
  const AllocationRefusal none = refusal_of(config, of_small("web"), taken);
  EXPECT_EQ(none.cause, Cause::kNotFree);
  EXPECT_EQ(none.resource, "addresses");
  EXPECT_EQ(none.asked, 1u);
  EXPECT_EQ(none.free, 0u);
  EXPECT_THAT(none.message, HasSubstr("template small has no free address (all 2 are in use)"));

  TenantRequest named = of_small("web");
  named.addresses = {address("fe80::7"), address("198.18.2.1")};
  const auto with_own = with_tenant(config, named, taken);
  ASSERT_TRUE(with_own);
  EXPECT_EQ((*with_own).tenants[1].addresses, named.addresses);
  named.addresses = {address("198.18.1.2")};
  EXPECT_THAT(refusal_of(config, named, taken).message,
              HasSubstr("still belongs to a removed tenant"));
  named.addresses = {address("198.18.0.1")};
  EXPECT_THAT(refusal_of(config, named).message, HasSubstr("already given to tenant base"));
  named.addresses.assign(2, address("198.18.2.1"));
  EXPECT_THAT(refusal_of(config, named).message, HasSubstr("already given to tenant web"));
  named.addresses.clear();
  for (std::uint32_t i = 0; i <= kMostAddresses; ++i)
    named.addresses.push_back(Gid::from_ipv4(0xc6130000 + i));
  EXPECT_THAT(refusal_of(config, named).message,
              HasSubstr("129 addresses given, at most 128 are possible"));
}

TEST(OnDemand, NamesAreCheckedAsInTheFile) {
  const Config config = with_template();
  for (const char* name :
       {"", "-x", "a/b", "..", "a.b", "a b", "x23456789012345678901234567890123"})
    EXPECT_EQ(refusal_of(config, of_small(name)).cause, Cause::kBadAmount) << name;
  const AllocationRefusal taken = refusal_of(config, of_small("base"));
  EXPECT_EQ(taken.cause, Cause::kNotFree);
  EXPECT_EQ(taken.resource, "name");
  const TenantRequest unknown{.name = "web", .template_name = "large"};
  EXPECT_EQ(refusal_of(config, unknown).cause, Cause::kNoSuchThing);
  Config deep = config;
  deep.daemon.runtime_dir = '/' + std::string(90, 'd');
  EXPECT_THAT(refusal_of(deep, of_small("a-long-name")).message, HasSubstr("socket path"));
}

TEST(OnDemand, WhatDoesNotFitIsRefusedWithWhatIsMissing) {
  Config config = with_template();
  config.tenants[0].pcbs = 75;
  AllocationRefusal refusal = refusal_of(config, of_small("web"));
  EXPECT_EQ(refusal.cause, Cause::kNotFree);
  EXPECT_EQ(refusal.resource, "pcbs");
  EXPECT_EQ(refusal.asked, 30u);
  EXPECT_EQ(refusal.free, 25u);
  config.tenants[0].pcbs = 40;
  EXPECT_EQ(refusal_of(config, of_small("web"), {}, {.pcbs = 31, .parts = {}}).free, 29u)
      << "what programs of removed tenants hold";
  config.pools.tenants = 1;
  EXPECT_EQ(refusal_of(config, of_small("web")).resource, "tenants");
  config.pools.tenants = 4;
  config.general_services.buffers = 4 * config.general_services.buffers_per_client - 1;
  EXPECT_THAT(refusal_of(config, of_small("web")).message, HasSubstr("general_services.buffers"));
}

TEST(OnDemand, WhoMayOpenItsSocketMayBeAnother) {
  Config config = with_template();
  SocketConfig& control = config.templates[0].control;
  control.mode = 0600;
  TenantRequest request = of_small("web");
  request.owner = "root";
  request.group = "4711";
  request.mode = 0640;
  const auto made = with_tenant(config, request);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made).tenants[1].socket, (SocketConfig{"root", "4711", 0640}));
  EXPECT_EQ((*made).tenants[1].control, (SocketConfig{"root", "4711", 0600}));
  control.owner = "nobody";
  EXPECT_EQ((*with_tenant(config, request)).tenants[1].control.owner, "nobody")
      << "that of the template, which is another's";
  request.owner = "no-such-user";
  EXPECT_EQ(refusal_of(config, request).cause, Cause::kBadAmount);
  request.owner.reset();
  request.group = "no-such-group";
  EXPECT_THAT(refusal_of(config, request).message, HasSubstr("no group 'no-such-group'"));
}

}  // namespace
}  // namespace softhca::configuration
