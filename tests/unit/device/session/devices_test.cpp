// SPDX-License-Identifier: Apache-2.0

// Sessions of several devices of one tenant.
#include <cerrno>

#include "daemon/base/endian.hpp"
#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/records/qp_attributes.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

constexpr std::uint64_t kGuid = 0x02005efffe100001;

configuration::Config with_devices() {
  configuration::Config config = small_config();
  configuration::TenantConfig& tenant = config.tenants[0];
  tenant.addresses = {Gid::from_ipv4(0xc6120001), Gid::from_ipv4(0xc6120005),
                      Gid::from_ipv4(0xc6120006)};
  configuration::TenantDevice& first = tenant.devices.emplace_back();
  first.name = "mlx5_0";
  first.addresses = {tenant.addresses[0]};
  configuration::TenantDevice& second = tenant.devices.emplace_back();
  second.name = "mlx5_1";
  second.guid = "0200:5eff:fe10:0001";
  second.rate = configuration::PortRate::k400;
  second.addresses = {tenant.addresses[1], tenant.addresses[2]};
  return config;
}

class DevicesTest : public ::testing::Test {
 protected:
  static int open(Client& client, std::uint32_t device) {
    const abi::HelloWithDevice hello{
        .named = {.hello = {abi::kSessionMagic, {abi::kAbiVersion, 0}}, .level = {}},
        .device = device,
        .reserved = 0};
    return client.ask<abi::HelloReply>(Operation::kHello, hello);
  }
  static abi::PortReply port_of(Client& client) {
    abi::PortReply port{};
    EXPECT_EQ(client.ask(Operation::kQueryPort, abi::HandleBody{1, 0}, &port), 0);
    return port;
  }
  static std::uint64_t guid_of(Client& client) {
    abi::DeviceReply device{};
    EXPECT_EQ(client.ask(Operation::kQueryDevice, abi::HandleBody{}, &device), 0);
    return swap_bytes(device.node_guid);
  }
  /// Makes an RC queue pair, or one for datagrams.
  static abi::CreateQpReply make_qp(Client& client, engine::QpType type) {
    const std::uint32_t pd = client.make(Operation::kAllocPd);
    abi::CreateCqReply cq{};
    EXPECT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 16, abi::kNoHandle}, &cq),
              0);
    abi::CreateQpRequest request{};
    request.pd = pd;
    request.type = type == engine::QpType::kRc ? 2 : 4;  // IBV_QPT_RC, IBV_QPT_UD
    request.send_cq = request.receive_cq = cq.handle;
    request.srq = abi::kNoHandle;
    request.max_send_wr = request.max_receive_wr = 4;
    request.max_send_sge = request.max_receive_sge = 1;
    abi::CreateQpReply qp{};
    EXPECT_EQ(client.ask(Operation::kCreateQp, request, &qp), 0);
    return qp;
  }
  static const engine::QueuePair& only_qp(const Client& client) {
    const engine::QueuePair* found = nullptr;
    client.session().queue_pairs().for_each([&](const engine::QueuePair& qp) { found = &qp; });
    return *found;
  }
  static int connect(Client& client, std::uint32_t qpn, std::uint8_t gid_index,
                     std::uint8_t port = 1) {
    namespace attr = engine::attr;
    abi::QpAttributes to_init{};
    to_init.mask = attr::kState | attr::kPkeyIndex | attr::kPort | attr::kAccessFlags;
    to_init.qp_state = 1;
    to_init.port_num = port;
    EXPECT_EQ(client.ask(Operation::kModifyQp, abi::ModifyQpRequest{qpn, 0, to_init}), 0);
    abi::QpAttributes to_rtr{};
    to_rtr.mask = attr::kState | attr::kAv | attr::kPathMtu | attr::kDestQpn | attr::kRqPsn |
                  attr::kMaxDestRdAtomic | attr::kMinRnrTimer;
    to_rtr.qp_state = 2;
    to_rtr.path_mtu = 3;
    to_rtr.av.is_global = 1;
    to_rtr.av.port_num = port;
    to_rtr.av.sgid_index = gid_index;
    const Gid peer = Gid::from_ipv4(0xc6120002);
    std::copy(peer.bytes.begin(), peer.bytes.end(), to_rtr.av.dgid);
    return client.ask(Operation::kModifyQp, abi::ModifyQpRequest{qpn, 0, to_rtr});
  }

  Daemon daemon{with_devices()};
  Client first{daemon};
  Client second{daemon};
};

TEST_F(DevicesTest, EachHasItsGuidRateAndAddresses) {
  EXPECT_EQ(first.greet(), 0) << "a HELLO without a device opens the first";
  ASSERT_EQ(open(second, 1), 0);
  EXPECT_EQ(guid_of(first), daemon.adapter.node_guid(first.session().tenant(), 0));
  EXPECT_EQ(guid_of(second), kGuid);
  EXPECT_EQ(port_of(first).active_speed, 32u) << "EDR";
  EXPECT_EQ(port_of(second).active_speed, 128u) << "NDR";
  EXPECT_EQ(port_of(second).active_width, 2u) << "4X";
}

TEST_F(DevicesTest, UnknownOneIsRefusedAndReported) {
  EXPECT_EQ(open(first, 2), EINVAL);
  EXPECT_EQ(first.take_refusal(), "it asks for device 2, counted from 0; the tenant has 2");
  EXPECT_EQ(open(first, 0xffffffff), EINVAL);
  EXPECT_EQ(open(first, 0), 0) << "and may ask again";
}

TEST_F(DevicesTest, QueuePairUsesTheAddressesOfItsDeviceOnly) {
  ASSERT_EQ(open(second, 1), 0);
  const auto qp = make_qp(second, engine::QpType::kRc);
  EXPECT_EQ(connect(second, qp.qpn, 1), 0);
  EXPECT_EQ(only_qp(second).connection.route.path.source, Gid::from_ipv4(0xc6120006));
  ASSERT_EQ(open(first, 0), 0);
  const auto other = make_qp(first, engine::QpType::kRc);
  EXPECT_EQ(connect(first, other.qpn, 4), EINVAL) << "beyond its table";
}

TEST_F(DevicesTest, PortHasTheAddressesOfItsNetwork) {
  // As number_ports() sets it for an address on another network.
  daemon.adapter.tenants[0]->addresses[2].device_port = 2;
  ASSERT_EQ(open(second, 1), 0);
  abi::DeviceReply device{};
  ASSERT_EQ(second.ask(Operation::kQueryDevice, abi::HandleBody{}, &device), 0);
  EXPECT_EQ(device.ports, 2u);
  const auto query = [&](std::uint32_t port) {
    return second.ask<abi::PortReply>(Operation::kQueryPort, abi::HandleBody{port, 0});
  };
  EXPECT_EQ(query(2), 0);
  EXPECT_EQ(query(3), EINVAL);
  EXPECT_EQ(query(0), EINVAL);
  EXPECT_EQ(query(257), EINVAL);
  const auto qp = make_qp(second, engine::QpType::kRc);
  EXPECT_EQ(connect(second, qp.qpn, 0, 2), 0);
  EXPECT_EQ(only_qp(second).connection.route.path.source, Gid::from_ipv4(0xc6120006));
  ASSERT_EQ(open(first, 0), 0);
  const auto other = make_qp(first, engine::QpType::kRc);
  EXPECT_EQ(connect(first, other.qpn, 0, 1), 0) << "of a device with one port";
}

TEST_F(DevicesTest, DatagramForAnotherDevice_IsForNoQueuePairOfThisOne) {
  ASSERT_EQ(open(second, 1), 0);
  make_qp(second, engine::QpType::kUd);
  const engine::QueuePair& qp = only_qp(second);
  const auto owner = [&](std::uint32_t address) {
    return daemon.adapter.engine.addresses.owner_of(qp, Gid::from_ipv4(address), {});
  };
  EXPECT_EQ(owner(0xc6120005), &second.session().tenant());
  EXPECT_EQ(owner(0xc6120001), nullptr) << "of the first device";
}

TEST_F(DevicesTest, ContextIsSharedWithinOneDevice) {
  ASSERT_EQ(open(first, 0), 0);
  ASSERT_EQ(open(second, 1), 0);
  abi::ContextToken token{};
  ASSERT_EQ(second.ask(Operation::kShareContext, abi::HandleBody{}, &token), 0);
  EXPECT_EQ(first.ask(Operation::kJoinContext, token), EACCES);
  Client third(daemon);
  ASSERT_EQ(open(third, 1), 0);
  EXPECT_EQ(third.ask(Operation::kJoinContext, token), 0);
}

}  // namespace
}  // namespace softhca::control
