// SPDX-License-Identifier: Apache-2.0

// Why commands are refused: the sentence names the attribute, its value and what is allowed.
#include <cerrno>

#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {
namespace {

class RdmaCmRefusals : public testing::Test {
 protected:
  World world;
  Host near{world, {"10.0.0.1"}, {.identifiers = 8, .listeners = 1}};
  Host far{world, {"10.0.0.2"}};
  Program program{near, {.process = 41, .user = 1000}};
  Program server{far};
  const SocketAddress to = address("10.0.0.2", 7174);

  /// The reason of the program's latest command.
  const std::string& why() const { return program.reply.refusal; }
};

TEST_F(RdmaCmRefusals, ForeignAddress_NamesTheTenants) {
  EXPECT_EQ(program.bind(program.create(), address("10.0.0.9")), EADDRNOTAVAIL);
  EXPECT_EQ(why(), "address 10.0.0.9 is not one of the tenant's, which has 10.0.0.1");
  EXPECT_EQ(program.bind(program.create(), address("fd00::9")), EADDRNOTAVAIL);
  EXPECT_EQ(why(),
            "address fd00::9 is not one of the tenant's, which has no address of this family");
  near.own.push_back({.gid = gid("10.0.0.3"), .index = 1});
  for (const char* more : {"10.0.0.4", "10.0.0.5", "10.0.0.6"})
    near.own.push_back({.gid = gid(more), .index = 2});
  EXPECT_EQ(program.bind(program.create(), address("10.0.0.9")), EADDRNOTAVAIL);
  EXPECT_EQ(why(),
            "address 10.0.0.9 is not one of the tenant's, which has 10.0.0.1, 10.0.0.3, 10.0.0.4 "
            "and 2 more");
}

TEST_F(RdmaCmRefusals, PortInUse_NamesItsProcess) {
  Program other(near, {.process = 42, .user = 1000});
  const auto id = other.create();
  ASSERT_EQ(other.bind(id, address("0.0.0.0", 7174)), 0);
  EXPECT_EQ(program.bind(program.create(), address("10.0.0.1", 7174)), EADDRNOTAVAIL);
  EXPECT_EQ(why(), "port 7174 of 10.0.0.1 is in use: process 42 has bound it on 0.0.0.0");
  ASSERT_EQ(other.listen(id), 0);
  EXPECT_EQ(program.bind(program.create(), address("0.0.0.0", 7174)), EADDRNOTAVAIL);
  EXPECT_EQ(why(), "port 7174 of 0.0.0.0 is in use: process 42 listens on 0.0.0.0");
}

TEST_F(RdmaCmRefusals, SharedPortBeforeListen_NamesTheOtherProcess) {
  Program other(near, {.process = 42, .user = 1000});
  const SocketAddress shared = address("10.0.0.1", 7174);
  const auto first = program.create(), second = other.create();
  ASSERT_EQ(program.set_option(first, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  ASSERT_EQ(other.set_option(second, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  ASSERT_EQ(program.bind(first, shared), 0);
  ASSERT_EQ(other.bind(second, shared), 0);
  EXPECT_EQ(program.listen(first), EADDRINUSE);
  EXPECT_EQ(why(), "port 7174 of 10.0.0.1 is in use: process 42 has bound it on 10.0.0.1");
}

TEST_F(RdmaCmRefusals, Port_NamesWhatIsAllowed) {
  EXPECT_EQ(program.bind(program.create(), address("10.0.0.1", 80)), EACCES);
  EXPECT_EQ(why(), "port 80, at least 1024 without CAP_NET_BIND_SERVICE");
  Host few(world, {"10.0.0.3"}, {.ephemeral = {.first = 4000, .last = 4000}});
  Program local(few);
  ASSERT_EQ(local.bind(local.create(), address("10.0.0.3")), 0);
  EXPECT_EQ(local.bind(local.create(), address("10.0.0.3")), EADDRNOTAVAIL);
  EXPECT_EQ(local.reply.refusal, "port 0, but all ports from 4000 to 4000 are in use");
}

TEST_F(RdmaCmRefusals, Destination_NamesNetworksOrTheAddressInTheWay) {
  const auto id = program.create();
  EXPECT_EQ(program.resolve_address(id, address("fd00::2")), ENETUNREACH);
  EXPECT_EQ(why(), "no route to dst_addr fd00::2: the tenant has fd00::1/64");
  const auto bound = program.create();
  ASSERT_EQ(program.bind(bound, address("10.0.0.1")), 0);
  EXPECT_EQ(program.resolve_address(bound, address("fd00::2")), EINVAL);
  EXPECT_EQ(why(), "dst_addr of family 10, but the identifier is bound to family 2");
  near.own.clear();
  EXPECT_EQ(program.resolve_address(bound, to), ENETUNREACH);
  EXPECT_EQ(why(), "the identifier's address 10.0.0.1 is no longer the tenant's");
}

TEST_F(RdmaCmRefusals, Family_NamesTheAttribute) {
  rdma_ucm_resolve_ip body{};
  body.id = program.create();
  body.dst_addr = to_sockaddr(to);
  body.src_addr.sin6_family = 77;
  EXPECT_EQ(program.command(RDMA_USER_CM_CMD_RESOLVE_IP, body), EINVAL);
  EXPECT_EQ(why(), "src_addr of family 77, must be AF_INET (2) or AF_INET6 (10)");
}

TEST_F(RdmaCmRefusals, LimitReached_Named) {
  ASSERT_EQ(program.listen(program.create()), 0);
  EXPECT_EQ(program.listen(program.create()), ENOSPC);
  EXPECT_EQ(why(), "tenant limit of 1 listeners reached (connections.listeners)");
  std::uint32_t id = 0;
  while (near.service->identifiers() < 8) program.create();
  EXPECT_EQ(program.create_id(RDMA_PS_TCP, id), EMFILE);
  EXPECT_EQ(why(), "tenant limit of 8 identifiers reached (connections.identifiers)");
}

TEST_F(RdmaCmRefusals, ConnectionNotCarried_NamesTheConnections) {
  near.service->admission().set({{.level = "", .carries = 1}}, 1);
  ASSERT_EQ(program.connect(program.resolved(to)), 0);
  EXPECT_EQ(program.connect(program.resolved(to)), ENOBUFS);
  EXPECT_EQ(why(), "the tenant has 1 connections, and its guarantees carry no more");
}

TEST_F(RdmaCmRefusals, ConnectsPerSecond_NamesTheLimit) {
  near.service->set_limits({.connects_per_second = 1}, {});
  ASSERT_EQ(program.connect(program.resolved(to)), 0);
  EXPECT_EQ(program.connect(program.resolved(to, PortSpace::kUdp)), EAGAIN);
  EXPECT_EQ(why(),
            "tenant limit of 1 connections per second reached (connections.connects_per_second)");
}

TEST_F(RdmaCmRefusals, MostConnections_NamesTheNumber) {
  near.service->set_limits({}, {.connections = 1, .half_open = 1});
  ASSERT_EQ(program.connect(program.resolved(to)), 0);
  EXPECT_EQ(program.connect(program.resolved(to)), ENOMEM);
  EXPECT_EQ(why(), "tenant limit reached: 1 connections, including TIME-WAIT (connections.most)");
}

TEST_F(RdmaCmRefusals, EventsThatWait_NamedWithTheCall) {
  const auto id = program.create();
  ASSERT_EQ(program.bind(id, address("10.0.0.1")), 0);
  near.neighbours_answer = false;
  int error = 0;
  while (error == 0) {
    error = program.resolve_address(id, to, {}, 1);
    world.advance(10ms);
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(why(), "64 events of the identifier wait, at most 64: call rdma_get_cm_event");
}

TEST_F(RdmaCmRefusals, PrivateData_NamedWithItsLimit) {
  const std::string long_data(200, 'x');
  EXPECT_EQ(program.connect(program.resolved(to), long_data), EINVAL);
  EXPECT_EQ(why(), "private_data_len 200, at most 56");
  EXPECT_EQ(program.connect(program.resolved(to, PortSpace::kUdp), long_data), EINVAL);
  EXPECT_EQ(why(), "private_data_len 200, at most 180");
  server.listening(to);
  ASSERT_EQ(program.connect(program.resolved(to)), 0);
  world.run();
  const auto passive = server.expect(EventType::kConnectRequest).id;
  EXPECT_EQ(server.reject(passive, long_data), EINVAL);
  EXPECT_EQ(server.reply.refusal, "private_data_len 200, at most 148");
  EXPECT_EQ(server.accept(passive, long_data), EINVAL);
  EXPECT_EQ(server.reply.refusal, "private_data_len 200, at most 196");
}

TEST_F(RdmaCmRefusals, ForeignQueuePair_NoOwnerNamed) {
  rdma_ucm_conn_param parameters{};
  parameters.qp_num = near.foreign.value;
  EXPECT_EQ(program.connect(program.resolved(to), {}, parameters), EPERM);
  EXPECT_EQ(why(), "qp_num 16777215 is a queue pair of another user or tenant");
}

TEST_F(RdmaCmRefusals, WrongState_NamesBoth) {
  const auto id = program.create();
  EXPECT_EQ(program.connect(id), EINVAL);
  EXPECT_EQ(why(), "the identifier is in state idle, must be in route_resolved");
  EXPECT_EQ(program.accept(id), EINVAL);
  EXPECT_EQ(why(), "the identifier is in state idle, must be in connect");
  EXPECT_EQ(program.disconnect(id), EINVAL);
  EXPECT_EQ(why(), "the identifier is in state idle, and never had a connection");
  ib_uverbs_qp_attr attributes{};
  EXPECT_EQ(program.init_qp_attr(id, 1, attributes), EINVAL);
  EXPECT_EQ(why(), "the identifier is in state idle, without an address of the tenant");
  server.listening(to);
  const Connected ends = establish(world, program, server, to);
  EXPECT_EQ(program.confirm(ends.active), EINVAL);
  EXPECT_EQ(why(), "not possible while the connection is in state established");
  EXPECT_EQ(server.notify(ends.passive, 4), EISCONN);
  EXPECT_EQ(server.reply.refusal, "the connection is established already");
}

TEST_F(RdmaCmRefusals, Options_NamedWithTheirValues) {
  const auto id = program.resolved(to);
  EXPECT_EQ(program.set_option(id, RDMA_OPTION_ID_ACK_TIMEOUT, std::uint8_t{32}), EINVAL);
  EXPECT_EQ(why(), "RDMA_OPTION_ID_ACK_TIMEOUT 32, at most 31");
  EXPECT_EQ(program.set_option(id, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
  EXPECT_EQ(why(), "the identifier is in state route_resolved, must be in idle");
  EXPECT_EQ(program.set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, std::vector<std::byte>(9)),
            EINVAL);
  EXPECT_EQ(why(), "optlen 9, must be a multiple of 72");
}

TEST_F(RdmaCmRefusals, ShortCommand_NamesBothLengths) {
  EXPECT_EQ(program.command(RDMA_USER_CM_CMD_LISTEN, std::vector<std::byte>(3)), EINVAL);
  EXPECT_EQ(why(), "a command of 3 bytes, at least 8");
}

TEST_F(RdmaCmRefusals, AnswersThatLibrariesExpect_HaveNoReason) {
  std::uint32_t id = 0;
  EXPECT_EQ(program.create_id(RDMA_PS_IB, id), EINVAL);
  EXPECT_EQ(why(), "");
  EXPECT_FALSE(program.get_event());
  EXPECT_EQ(why(), "");
}

TEST_F(RdmaCmRefusals, CommandAfterARefusedOne_HasNoReason) {
  EXPECT_EQ(program.destroy(99), -ENOENT);
  EXPECT_EQ(why(), "no such identifier: destroyed, or never made");
  program.create();
  EXPECT_EQ(why(), "");
}

}  // namespace
}  // namespace softhca::management::rdma_cm
