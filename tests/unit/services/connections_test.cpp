// SPDX-License-Identifier: Apache-2.0

// What programs of rdma_cm learn of their tenant's adapter.
#include "daemon/services/connections.hpp"

#include <endian.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>
#include <string>

#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/roce/rdma_cm/addresses/socket_address.hpp"
#include "daemon/roce/rdma_cm/layouts.hpp"
#include "daemon/services/tenant_paths.hpp"
#include "tests/unit/device/session/client.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::control {
namespace {

using namespace management;

class Routes : public ::testing::Test {
 protected:
  explicit Routes(const configuration::Config& config = small_config()) : daemon(config) {
    for (const auto& tenant : daemon.adapter.tenants) EXPECT_TRUE(connections.add(*tenant));
  }
  ~Routes() override {
    for (const auto& tenant : daemon.adapter.tenants) connections.remove(*tenant);
  }

  engine::Tenant& tenant(std::size_t i) { return *daemon.adapter.tenants[i]; }

  /// `source`: the address that the program binds to, or none.
  rdma_ucm_query_route_resp route(std::size_t from, const Gid& to,
                                  const std::optional<Gid>& source = {}) {
    const auto channel = connections.open_channel(tenant(from), {.process = 1}, [] {});
    const auto command = [&](std::uint32_t number, const auto& body) {
      rdma_cm::ChannelReply reply;
      EXPECT_EQ(
          connections.find(tenant(from))
              ->command(*channel, {.command = number, .body = std::as_bytes(std::span(&body, 1))},
                        reply, now()),
          0)
          << number;
      return reply;
    };
    rdma_ucm_create_id create{};
    create.ps = RDMA_PS_TCP;
    const auto created = command(RDMA_USER_CM_CMD_CREATE_ID, create);
    std::uint32_t id = 0;
    std::memcpy(&id, created.body.data(), sizeof id);

    rdma_ucm_resolve_ip resolve{};
    resolve.id = id;
    resolve.timeout_ms = 1000;
    resolve.dst_addr = rdma_cm::to_sockaddr({.family = AF_INET, .port = 7471, .address = to});
    if (source) resolve.src_addr = rdma_cm::to_sockaddr({.family = AF_INET, .address = *source});
    command(RDMA_USER_CM_CMD_RESOLVE_IP, resolve);
    rdma_ucm_resolve_route resolve_route{};
    resolve_route.id = id;
    command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, resolve_route);
    rdma_ucm_query query{};
    query.id = id;
    const auto answer = command(RDMA_USER_CM_CMD_QUERY_ROUTE, query);
    rdma_ucm_query_route_resp found{};
    std::memcpy(&found, answer.body.data(), sizeof found);
    EXPECT_TRUE(connections.close_channel(tenant(from), *channel, Turn::endless()));
    return found;
  }

  Daemon daemon;
  Connections connections{daemon.adapter, *daemon.general_services};
};

class RoutesOfDevices : public Routes {
 protected:
  RoutesOfDevices() : Routes(with_devices()) {}
  static configuration::Config with_devices() {
    configuration::Config config = small_config();
    configuration::TenantConfig& tenant = config.tenants[0];
    tenant.addresses = {Gid::from_ipv4(0xc6120001), Gid::from_ipv4(0xc6120005)};
    for (const Gid& gid : tenant.addresses) {
      configuration::TenantDevice& device = tenant.devices.emplace_back();
      device.name = "mlx5_" + std::to_string(tenant.devices.size() - 1);
      device.rate = configuration::PortRate::k400;
      device.addresses = {gid};
    }
    return config;
  }
};

TEST_F(RoutesOfDevices, LeadToTheDeviceThatHasTheAddress) {
  for (const std::uint8_t device : {0, 1}) {
    const Gid own = tenant(0).addresses[device].gid;
    const auto found = route(0, tenant(1).addresses.front().gid, own);
    EXPECT_EQ(be64toh(found.node_guid), daemon.adapter.node_guid(tenant(0), device));
    EXPECT_EQ(found.ib_route[0].rate, 21) << "IBV_RATE_400_GBPS";
  }
}

TEST_F(Routes, NameThePortAndItsPace) {
  const auto found = route(0, tenant(1).addresses.front().gid);
  ASSERT_EQ(found.num_paths, 1u);
  EXPECT_EQ(found.port_num, 1);
  EXPECT_EQ(found.ib_route[0].mtu, 5) << "4096 bytes";
  EXPECT_EQ(found.ib_route[0].rate, 16) << "IBV_RATE_100_GBPS";
  EXPECT_EQ(found.ib_route[0].packet_life_time, 18);
}

TEST_F(Routes, LeadToTheSameDeviceAfterOtherAddresses) {
  const std::uint64_t guid = route(0, tenant(1).addresses.front().gid).node_guid;
  EXPECT_EQ(be64toh(guid), daemon.adapter.node_guid(tenant(0), 0));
  EXPECT_NE(guid, route(1, tenant(0).addresses.front().gid).node_guid);
  daemon.worker.run(engine::Task{
      [&](engine::Engine&) { tenant(0).addresses.front().gid = Gid::from_ipv4(0xc6120077); }});
  connections.addresses_changed(tenant(0));
  EXPECT_EQ(route(0, Gid::from_ipv4(0xc6120077)).node_guid, guid);
}

TEST_F(Routes, NetworksAsText_NameThoseOfPorts) {
  const Gid own = tenant(0).addresses.front().gid;
  daemon.adapter.config.ports.push_back({.name = "p", .addresses = {{own, 24}}});
  daemon.worker.run(
      engine::Task{[&](engine::Engine&) { tenant(0).addresses.front().port = PortId(0); }});
  EXPECT_EQ(networks(daemon.adapter, tenant(0), true), configuration::to_string(own) + "/24");
  EXPECT_EQ(
      networks(daemon.adapter, tenant(1), true),
      configuration::to_string(tenant(1).addresses.front().gid) + " (inside this daemon only)");
  EXPECT_EQ(networks(daemon.adapter, tenant(0), false), "no address of this family");
}

/// A reload may give a tenant the number of one that goes, and end the latter afterwards.
TEST_F(Routes, ATenantWithTheNumberOfAFormerOneIsServed) {
  engine::Tenant successor;
  successor.id = tenant(1).id;
  successor.name = "c";
  successor.addresses = tenant(1).addresses;
  successor.control.settings = tenant(1).control.settings;
  const auto is_client = [&](std::uint8_t management_class) {
    return bool(daemon.general_services->set_buffers(successor,
                                                     engine::class_selector(management_class), 16));
  };
  EXPECT_TRUE(connections.add(successor));
  connections.remove(tenant(1));
  for (const std::uint8_t management_class : {7, 4}) EXPECT_TRUE(is_client(management_class));
  connections.remove(successor);
  for (const std::uint8_t management_class : {7, 4}) EXPECT_FALSE(is_client(management_class));
}

TEST(ConnectionsOf, ATenantThatIsServedInPartOnlyIsNotServed) {
  configuration::Config config = small_config();
  config.general_services.buffers = 5;  // two clients for each of two tenants, and one more
  config.general_services.buffers_per_client = 1;
  Daemon daemon(config);
  Connections connections(daemon.adapter, *daemon.general_services);
  for (const auto& tenant : daemon.adapter.tenants) ASSERT_TRUE(connections.add(*tenant));
  engine::Tenant third;
  third.id = TenantId(2);
  third.name = "c";
  third.control.settings = daemon.adapter.tenants[0]->control.settings;
  const auto added = connections.add(third);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message, "tenant c: 1 buffers requested, 0 of 5 are free");
  EXPECT_EQ(connections.find(third), nullptr);
  connections.remove(*daemon.adapter.tenants[0]);
  EXPECT_TRUE(connections.add(third)) << "what it had been given is free";
}

}  // namespace
}  // namespace softhca::control
