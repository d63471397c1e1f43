// SPDX-License-Identifier: Apache-2.0

// Addresses of tenants, and the members of groups, by themselves.
#include "daemon/engine/addresses/local_addresses.hpp"

#include <gtest/gtest.h>

#include "abi/control.hpp"
#include "daemon/engine/addresses/multicast.hpp"

namespace softhca::engine {
namespace {

constexpr PortId kPort(0), kOther(1);

Gid gid(std::uint8_t n, std::uint8_t first = 0xfd) {
  Gid out;
  out.bytes[0] = first;
  out.bytes[15] = n;
  return out;
}

class Addressing : public ::testing::Test {
 protected:
  Addressing() {
    wired.addresses = {{gid(1), kPort}, {gid(2), std::nullopt}};
    inside.addresses = {{gid(3), std::nullopt}};
    addresses.add(wired);
    addresses.add(inside);
  }
  QueuePair& member(Tenant& tenant) {
    pairs.push_back(std::make_unique<QueuePair>());
    pairs.back()->tenant = &tenant;
    EXPECT_TRUE(multicast.attach(*pairs.back(), group));
    return *pairs.back();
  }
  std::vector<const QueuePair*> reached_inside(std::optional<PortId> port) {
    std::vector<const QueuePair*> out;
    multicast.for_each_inside(group, port, [&](QueuePair& qp) {
      out.push_back(&qp);
      return true;
    });
    return out;
  }
  std::vector<const QueuePair*> reached_on(PortId port, const Gid& source) {
    std::vector<const QueuePair*> out;
    multicast.for_each_on(group, port, source, [&](QueuePair& qp) { out.push_back(&qp); });
    return out;
  }

  const Gid group = gid(9, 0xff);
  Tenant wired, inside;
  LocalAddresses addresses;
  Multicast multicast{addresses};
  std::vector<std::unique_ptr<QueuePair>> pairs;
};

/// An address that goes from one tenant to another serves the new owner, whatever of the former one
/// still runs.
TEST_F(Addressing, WhoHasAnAddressBeatsWhoHadIt) {
  addresses.set(wired, {{gid(2), std::nullopt}}, {{gid(1), kPort}});
  EXPECT_EQ(addresses.owner(gid(1), kPort), &wired) << "no other tenant has it";
  addresses.set(inside, {{gid(3), std::nullopt}, {gid(1), kPort}}, {});
  EXPECT_EQ(addresses.owner(gid(1), kPort), &inside);
  EXPECT_EQ(addresses.owner(gid(1), std::nullopt), &inside);
  addresses.set(inside, {{gid(3), std::nullopt}, {gid(1), kOther}}, {});
  EXPECT_EQ(addresses.owner(gid(1), std::nullopt), &inside) << "also by another port";
  EXPECT_EQ(addresses.owner(gid(1), kPort), &wired);
}

TEST_F(Addressing, WhoStaysBeatsWhoIsLeaving) {
  addresses.set(inside, {{gid(1), kPort}}, {});
  EXPECT_EQ(addresses.owner(gid(1), kPort), &wired) << "the first to have it";
  addresses.let_yield(wired, true);
  EXPECT_EQ(addresses.owner(gid(1), kPort), &inside);
  EXPECT_EQ(addresses.owner(gid(2), std::nullopt), &wired);
}

TEST_F(Addressing, OwnersAreFoundByPort) {
  EXPECT_EQ(addresses.owner(gid(1), kPort), &wired);
  EXPECT_EQ(addresses.owner(gid(1), kOther), nullptr);
  EXPECT_EQ(addresses.owner(gid(1), std::nullopt), &wired);
  EXPECT_EQ(addresses.owner(gid(3), std::nullopt), &inside);
  EXPECT_EQ(addresses.owner(gid(4), std::nullopt), nullptr);
  EXPECT_TRUE(addresses.is_local(gid(2)));
  EXPECT_FALSE(addresses.is_local(gid(4)));
  EXPECT_EQ(addresses.port_of(gid(1)), kPort);
  EXPECT_EQ(addresses.port_of(gid(3)), std::nullopt);
}

TEST_F(Addressing, FormerOnesAreStillOurs) {
  addresses.set(wired, {{gid(5), kPort}}, {{gid(1), kPort}});
  EXPECT_EQ(addresses.owner(gid(1), kPort), &wired);
  EXPECT_EQ(addresses.owner(gid(5), kPort), &wired);
  EXPECT_FALSE(addresses.is_local(gid(2)));
  addresses.remove(wired);
  EXPECT_FALSE(addresses.is_local(gid(1)));
  EXPECT_TRUE(addresses.is_local(gid(3)));
}

/// Two tenants with one address inside, on different ports.
TEST_F(Addressing, OneAddressOnTwoPorts) {
  Tenant third;
  third.addresses = {{gid(1), kOther}};
  addresses.add(third);
  EXPECT_EQ(addresses.owner(gid(1), kOther), &third);
  EXPECT_EQ(addresses.owner(gid(1), kPort), &wired);
  EXPECT_EQ(addresses.port_of(gid(1)), kPort);
}

TEST_F(Addressing, MembersInsideAndOnThePort) {
  const QueuePair& on_wire = member(wired);
  const QueuePair& in_here = member(inside);
  using Members = std::vector<const QueuePair*>;
  EXPECT_EQ(reached_inside(std::nullopt), (Members{&on_wire, &in_here}));
  EXPECT_EQ(reached_inside(kOther), (Members{&on_wire, &in_here})) << "both have an address inside";
  EXPECT_EQ(reached_on(kPort, gid(77)), Members{&on_wire});
  EXPECT_EQ(reached_on(kOther, gid(77)), Members{});
  EXPECT_EQ(reached_on(kPort, gid(1)), Members{}) << "our own, come back";
}

TEST_F(Addressing, MembershipHasLimits) {
  std::vector<QueuePair*> members;
  for (std::uint32_t i = 0; i < abi::kMaxMulticastMembers; ++i) members.push_back(&member(wired));
  QueuePair one_more;
  one_more.tenant = &wired;
  EXPECT_FALSE(multicast.attach(one_more, group));
  member(inside);
  EXPECT_TRUE(multicast.attach(*members[0], group)) << "it is one already";
  multicast.detach_all(*members[0]);
  EXPECT_TRUE(members[0]->groups.empty());
  EXPECT_FALSE(multicast.detach(*members[0], group));
  EXPECT_TRUE(multicast.attach(one_more, group));
}

TEST_F(Addressing, AQueuePairIsInSoManyGroups) {
  QueuePair& qp = member(wired);
  for (std::uint8_t i = 1; i < abi::kMaxMulticastGroups; ++i)
    ASSERT_TRUE(multicast.attach(qp, gid(i, 0xff) == group ? gid(200, 0xff) : gid(i, 0xff)));
  EXPECT_FALSE(multicast.attach(qp, gid(201, 0xff)));
  multicast.detach_all(qp);
  EXPECT_TRUE(reached_inside(std::nullopt).empty());
}

}  // namespace
}  // namespace softhca::engine
