// SPDX-License-Identifier: Apache-2.0

// Processes that send anything at all, beside ones that behave: errors, never more.
#include <algorithm>
#include <cerrno>

#include "tests/unit/roce/rdma_cm/world.hpp"

namespace softhca::management::rdma_cm {
namespace {

class Hostile : public testing::Test {
 protected:
  World world;
  Host near{world, {"10.0.0.1", "fd00::1"}, {.identifiers = 200, .listeners = 20, .backlog = 8}};
  Host far{world, {"10.0.0.2", "fd00::2"}};
  Program process{near, {.process = 1}};
  const SocketAddress to = address("10.0.0.2", 7174);
};

/// Length of the body of each command; 0 for those that take none.
constexpr std::size_t kLengths[] = {24, 16, 40, 64, 8,  16, 280, 8, 288, 264, 4, 16,
                                    0,  0,  24, 8,  48, 16, 16,  0, 0,   0,   0};

TEST_F(Hostile, ShortBodies) {
  process.create();
  for (std::uint32_t command = 0; command < std::size(kLengths); ++command)
    for (std::size_t length = 0; length < kLengths[command]; ++length) {
      const std::vector<std::byte> body(length);
      EXPECT_EQ(process.command(command, body, process.channel), EINVAL) << command;
    }
  EXPECT_EQ(near.service->identifiers(), 1u);
}

TEST_F(Hostile, UnknownCommands) {
  for (const std::uint32_t command : {13u, 19u, 20u, 21u, 22u})
    EXPECT_EQ(process.command(command, std::vector<std::byte>(320)), ENOSYS);
  for (const std::uint32_t command : {23u, 100u, 0x80000000u, 0xffffffffu})
    EXPECT_EQ(process.command(command, std::vector<std::byte>(320)), EINVAL);
}

TEST_F(Hostile, PortSpaces) {
  std::uint32_t id = 0;
  for (std::uint32_t space = 0; space < 0x10000; ++space) {
    const bool known = space == RDMA_PS_TCP || space == RDMA_PS_UDP || space == RDMA_PS_IPOIB;
    ASSERT_EQ(process.create_id(static_cast<std::uint16_t>(space), id), known ? 0 : EINVAL);
  }
}

TEST_F(Hostile, FamiliesOfAddresses) {
  const auto id = process.create(PortSpace::kUdp), bound = process.create(PortSpace::kUdp);
  ASSERT_EQ(process.bind(bound, address("10.0.0.1")), 0);
  for (std::uint32_t family = 0; family < 0x10000; ++family) {
    if (family == AF_INET || family == AF_INET6) continue;
    sockaddr_in6 strange = to_sockaddr(address("10.0.0.1"));
    strange.sin6_family = static_cast<sa_family_t>(family);
    rdma_ucm_bind_ip bind{};
    bind.addr = strange;
    bind.id = id;
    ASSERT_EQ(process.command(RDMA_USER_CM_CMD_BIND_IP, bind), EINVAL);
    rdma_ucm_resolve_ip resolve{};
    resolve.id = id;
    resolve.dst_addr = strange;
    ASSERT_EQ(process.command(RDMA_USER_CM_CMD_RESOLVE_IP, resolve), EINVAL);
    rdma_ucm_join_ip_mcast join{};
    join.id = bound;
    join.addr = strange;
    ASSERT_EQ(process.command(RDMA_USER_CM_CMD_JOIN_IP_MCAST, join), EINVAL);
    if (family == AF_UNSPEC) continue;
    resolve.src_addr = strange;
    resolve.dst_addr = to_sockaddr(to);
    ASSERT_EQ(process.command(RDMA_USER_CM_CMD_RESOLVE_IP, resolve), EINVAL);
  }
}

TEST_F(Hostile, PrivateDataThatDoesNotFit) {
  rdma_ucm_conn_param parameters{};
  const auto id = process.resolved(to);
  Program peer(far);
  peer.listening(to);
  for (int length = 57; length < 256; ++length) {
    const std::string data(static_cast<std::size_t>(length), 'x');
    EXPECT_EQ(process.connect(id, data, parameters), EINVAL) << length;
  }
  EXPECT_EQ(process.connect(id), 0);
  world.run();
  const auto passive = peer.expect(EventType::kConnectRequest).id;
  for (int length = 149; length < 256; ++length)
    EXPECT_EQ(peer.reject(passive, std::string(static_cast<std::size_t>(length), 'x')), EINVAL);
  EXPECT_EQ(peer.accept(passive), 0);
}

TEST_F(Hostile, ConnectWithoutParameters) {
  rdma_ucm_connect body{};
  body.id = process.resolved(to);
  EXPECT_EQ(process.command(RDMA_USER_CM_CMD_CONNECT, body), EINVAL);
}

TEST_F(Hostile, AShorterBodyOfAnOlderLibraryWill) {
  rdma_ucm_connect body{};
  body.id = process.resolved(to);
  body.conn_param.valid = 1;
  EXPECT_EQ(
      process.command(RDMA_USER_CM_CMD_CONNECT, std::as_bytes(std::span(&body, 1)).first(280)), 0);
}

TEST_F(Hostile, AUidOfZeroTakesNoEvents) {
  std::uint32_t id = 0;
  ASSERT_EQ(process.create_id(RDMA_PS_TCP, id, 0), 0);
  ASSERT_EQ(process.resolve_address(id, to), 0);
  process.expect_none();
  EXPECT_EQ(process.destroy(id), 0);
}

/// Random commands of three processes. Most are well formed and name what the process has, so that
/// they get far.
class Storm {
 public:
  Storm(World& world, Host& host, const std::string& peer, std::uint32_t seed)
      : world_(world), host_(host), peer_(peer), random_(seed) {
    for (int i = 0; i < 3; ++i)
      members_.push_back({std::make_unique<Program>(host, ChannelOwner{.process = i / 2}), {}});
  }

  void step() {
    Member& member = members_[random_() % members_.size()];
    Program& program = *member.program;
    std::vector<std::byte> body(chance(16) ? random_() % 340 : 340);
    for (std::byte& byte : body) byte = chance(4) ? std::byte(random_()) : std::byte(random_() % 3);
    const std::uint32_t command = random_() % 20;
    make_likely(command, member, body);
    const int error =
        program.command(command, body, members_[random_() % members_.size()].program->channel);
    if (error == 0) learn(command, member);
    if (chance(4)) world_.run();
    if (chance(256)) world_.advance(std::chrono::milliseconds(random_() % 20000));
    if (chance(500)) {
      program.close();
      program.channel = host_.service->open_channel({});
    }
  }

 private:
  struct Member {
    std::unique_ptr<Program> program;
    std::vector<std::uint32_t> ids;  ///< that it was told of
  };

  bool chance(std::uint32_t one_of) { return random_() % one_of == 0; }
  template <class T>
  static void put(std::vector<std::byte>& body, std::size_t at, const T& value) {
    if (at + sizeof value <= body.size()) std::memcpy(&body[at], &value, sizeof value);
  }
  void learn(std::uint32_t command, Member& member) {
    std::uint32_t id = 0;
    const std::size_t at = command == RDMA_USER_CM_CMD_GET_EVENT ? 8 : 0;
    std::memcpy(&id, &member.program->reply.body[at], sizeof id);
    if (command == RDMA_USER_CM_CMD_CREATE_ID || command == RDMA_USER_CM_CMD_GET_EVENT)
      member.ids.push_back(id);
    if (member.ids.size() > 4) member.ids.erase(member.ids.begin());
  }
  SocketAddress some_address() {
    const char* const all[] = {"10.0.0.1", "10.0.0.2", "127.0.0.1", "0.0.0.0",   "::",
                               "::1",      "fd00::1",  "239.0.0.1", "10.0.0.77", "fd00::2"};
    const char* const text = chance(2) ? all[random_() % std::size(all)] : peer_.c_str();
    return address(text, static_cast<std::uint16_t>(7000 + random_() % 2));
  }
  void put_parameters(std::vector<std::byte>& body, std::size_t at) {
    put(body, at, std::uint32_t(random_() % 0x1000000));
    put(body, at + 264, std::uint8_t(chance(8) ? random_() : random_() % 57));
    put(body, at + 271, std::uint8_t(chance(4) ? 0 : 1));
  }
  void make_likely(std::uint32_t command, const Member& member, std::vector<std::byte>& body) {
    const std::uint32_t id = member.ids.empty() || chance(16)
                                 ? random_() % 12
                                 : member.ids[random_() % member.ids.size()];
    switch (command) {
      case RDMA_USER_CM_CMD_CREATE_ID: {
        const std::uint16_t spaces[] = {RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB};
        return put(body, 16, spaces[random_() % 4]);
      }
      case RDMA_USER_CM_CMD_BIND_IP:
        put(body, 8, to_sockaddr(chance(2) ? some_address() : address("0.0.0.0", 7000)));
        return put(body, 36, id);
      case RDMA_USER_CM_CMD_RESOLVE_IP:
        put(body, 0, to_sockaddr(chance(4) ? some_address() : SocketAddress()));
        put(body, 28, to_sockaddr(some_address()));
        return put(body, 56, id);
      case RDMA_USER_CM_CMD_CONNECT:
        put_parameters(body, 0);
        return put(body, 272, id);
      case RDMA_USER_CM_CMD_ACCEPT:
        put_parameters(body, 8);
        return put(body, 280, id);
      case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
        put(body, 16, to_sockaddr(some_address()));
        return put(body, 44, id);
      case RDMA_USER_CM_CMD_REJECT:
        put(body, 4, std::uint8_t(random_() % 160));
        put(body, 5, std::uint8_t(chance(4) ? 1 : 28));
        return put(body, 0, id);
      case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      case RDMA_USER_CM_CMD_LISTEN:
      case RDMA_USER_CM_CMD_DISCONNECT:
        return put(body, 0, id);
      case RDMA_USER_CM_CMD_NOTIFY:
        put(body, 4, std::uint32_t{4});
        return put(body, 0, id);
      case RDMA_USER_CM_CMD_DESTROY_ID:
        return put(body, 8, chance(4) ? id : ~0u);
      default:
        return put(body, 8, id);
    }
  }

  World& world_;
  Host& host_;
  std::string peer_;
  std::mt19937 random_;
  std::vector<Member> members_;
};

TEST_F(Hostile, AnythingAtAll) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Program bystander(near, {.process = 99});
    Program peer(far);
    peer.listening(to);
    const auto ends = establish(world, bystander, peer, to);
    {
      Storm here(world, near, "10.0.0.2", seed), there(world, far, "10.0.0.1", seed + 1000);
      for (int i = 0; i < 3000; ++i) {
        here.step();
        there.step();
      }
      ib_uverbs_qp_attr attributes{};
      EXPECT_EQ(bystander.init_qp_attr(ends.active, 3, attributes), 0) << "untouched";
      bystander.expect_none();
    }
    bystander.close();
    peer.close();
    world.advance(10min);
    EXPECT_EQ(near.service->manager().size(), 0u);
    EXPECT_EQ(far.service->manager().size(), 0u);
    EXPECT_EQ(near.service->identifiers(), 0u);
    EXPECT_EQ(near.service->memberships(), 0u);
    EXPECT_EQ(near.service->listeners(), 0u);
    EXPECT_EQ(near.service->next_deadline(), kNever);
  }
  EXPECT_GT(near.established[Role::kPassive], 0) << "some got as far as that";
  EXPECT_GT(near.rejects_sent[wire::CmRejectReason::kConsumer], 0);
}

TEST_F(Hostile, MadsOfAnything) {
  process.listening(address("0.0.0.0", 7174));
  std::mt19937 random(3);
  const cm::Path path{.local = gid("10.0.0.1"), .remote = gid("10.0.0.2")};
  Program peer(far);
  for (int i = 0; i < 20000; ++i) {
    // A good request, and then some bits that are not.
    const auto id = peer.resolved(address("10.0.0.1", 7174));
    ASSERT_EQ(peer.connect(id), 0);
    wire::Mad mad = world.queue.back().mad;
    world.queue.clear();
    for (std::uint32_t flips = random() % 6; flips > 0; --flips)
      mad[random() % mad.size()] ^= std::byte(1 << random() % 8);
    near.service->receive(mad, path, Qpn(1), world.now);
    peer.destroy(id);
    world.queue.clear();
    if (i % 100 != 0) continue;
    while (const auto event = process.get_event()) process.destroy(event->id);
    world.queue.clear();
    world.advance(5min);
  }
  process.close();
  world.advance(10min);
  EXPECT_EQ(near.service->identifiers(), 0u);
}

}  // namespace
}  // namespace softhca::management::rdma_cm
