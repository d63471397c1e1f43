// SPDX-License-Identifier: Apache-2.0

// Multicast groups: which queue pairs get a copy of a datagram, and which are members.
#include "abi/control.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kMulticastQkey = 0x11111111;
constexpr std::size_t kMulticastGrh = transport::kRoutingHeaderBytes;
const Gid kMulticastGroup = Gid::from_ipv4(0xe0000109);  // 224.0.1.9

/// A UD queue pair in RTS with a completion queue and memory of its own.
struct Endpoint {
  Endpoint(Process& of, std::uint32_t qkey = kMulticastQkey)
      : process(of),
        cq(of.make_cq()),
        qp(of.make_qp(cq, cq, {.type = QpType::kUd})),
        to(of.make_buffer(1000)) {
    bring_up_datagram(of, qp, qkey);
  }
  bool attach(const Gid& group = kMulticastGroup) {
    return process.adapter.engine.multicast().attach(qp.qp, group);
  }
  bool detach(const Gid& group = kMulticastGroup) {
    return process.adapter.engine.multicast().detach(qp.qp, group);
  }
  void receive() { process.post_receive(qp, {to.all()}); }
  void send(Buffer& from, std::uint32_t qkey = kMulticastQkey, const Gid& group = kMulticastGroup) {
    process.post(qp, {.sge = {from.part(0, 200)},
                      .remote_qpn = kMulticastQpn.value,
                      .remote_qkey = qkey,
                      .address_handle = process.make_ah(group)});
  }
  std::uint64_t counted(transport::Count count) const {
    return process.tenant.counters.transport[static_cast<std::size_t>(count)].value();
  }

  Process& process;
  TestCq& cq;
  TestQp& qp;
  Buffer& to;
};

class MulticastGroups : public BothWays {
 protected:
  MulticastGroups() : pair(GetParam()), from(a.make_buffer(200)) { from.fill(1); }
  ~MulticastGroups() { pair.expect_idle(); }

  void send(std::uint32_t qkey = kMulticastQkey) {
    sender.send(from, qkey);
    expect(sender, false);
  }
  /// The next completion: of a whole copy, or of a send.
  void expect(Endpoint& at, bool copy = true) {
    const auto got = pair.wait(at.cq);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->status, Status::kSuccess);
    EXPECT_EQ(got->is_receive, copy);
    if (!copy) return;
    EXPECT_EQ(got->byte_len, 200 + kMulticastGrh);
    EXPECT_EQ(got->source, sender.qp.qp.qpn.value);
    EXPECT_EQ(std::memcmp(at.to.data() + kMulticastGrh, from.data(), 200), 0);
    const std::uint8_t addresses[] = {10, 0, 0, 1, 224, 0, 1, 9};
    EXPECT_EQ(std::memcmp(at.to.data() + 32, addresses, sizeof addresses), 0);
  }
  void expect_nothing(Endpoint& at) {
    pair.run_for(std::chrono::microseconds(50));
    EXPECT_FALSE(at.cq.poll());
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Endpoint sender{a};
  Buffer& from;
};

TEST_P(MulticastGroups, EveryMemberGetsACopyTheSendersOwnIncluded) {
  Endpoint near(a), first(b), second(b), stranger(b);
  for (Endpoint* member : {&sender, &near, &first, &second}) {
    EXPECT_TRUE(member->attach());
    member->receive();
  }
  EXPECT_TRUE(stranger.attach(Gid::from_ipv4(0xe0000108)));
  stranger.receive();
  sender.send(from);
  expect(sender);
  expect(sender, false);
  for (Endpoint* member : {&near, &first, &second}) expect(*member);
  for (Endpoint* other : {&sender, &near, &first, &second, &stranger}) expect_nothing(*other);
}

TEST_P(MulticastGroups, SenderNeedNotBeAMemberNorAnybody) {
  send();
  Endpoint member(b);
  EXPECT_TRUE(member.attach());
  member.receive();
  send();
  expect(member);
}

TEST_P(MulticastGroups, AnotherQkeyIsForOthers) {
  Endpoint other(b, kMulticastQkey + 1), member(b);
  for (Endpoint* e : {&other, &member}) {
    EXPECT_TRUE(e->attach());
    e->receive();
  }
  send();
  expect(member);
  expect_nothing(other);
  EXPECT_EQ(other.counted(transport::Count::kBadQkey), 1u);
  send(0x80000000);  // the sender's own
  send(kMulticastQkey + 1);
  expect(other);
}

TEST_P(MulticastGroups, MembersWithoutReceiveOrInErrorKeepNobodyFromTheirs) {
  Endpoint slow(b), broken(b), member(b);
  for (Endpoint* e : {&slow, &broken, &member}) EXPECT_TRUE(e->attach());
  b.adapter.engine.queue_pairs().enter_error(broken.qp.qp);
  member.receive();
  send();
  expect(member);
  EXPECT_EQ(slow.counted(transport::Count::kReceiveDropped), 1u);
  EXPECT_EQ(sender.counted(transport::Count::kBadState) +
                (local() ? 0 : broken.counted(transport::Count::kBadState)),
            1u);
}

TEST_P(MulticastGroups, WhoIsDetachedOrGoneGetsNothing) {
  Endpoint detached(b), gone(b), member(b);
  auto other = std::make_unique<Process>(b.adapter, b.tenant);
  Endpoint ended(*other);
  for (Endpoint* e : {&detached, &gone, &ended, &member}) {
    EXPECT_TRUE(e->attach());
    EXPECT_TRUE(e->attach()) << "twice is once";
    e->receive();
  }
  EXPECT_TRUE(detached.detach());
  EXPECT_FALSE(detached.detach());
  b.destroy(gone.qp);
  other->end();
  member.receive();
  send();
  expect(member);
  for (Endpoint* e : {&detached, &gone, &member}) expect_nothing(*e);
}

TEST_P(MulticastGroups, MemoryOfTheSenderThatIsNotThere) {
  Endpoint member(b);
  EXPECT_TRUE(member.attach());
  member.receive();
  Buffer missing = from;
  missing.key = 0x7777;
  sender.send(missing);
  EXPECT_EQ(pair.wait_status(sender.cq), Status::kLocalProtectionError);
  EXPECT_EQ(sender.qp.qp.state, QpState::kError);
  expect_nothing(member);
}

TEST_P(MulticastGroups, MemoryOfAMemberThatIsNotThereEndsThatMember) {
  Endpoint broken(b), member(b);
  for (Endpoint* e : {&broken, &member}) EXPECT_TRUE(e->attach());
  b.post_receive(broken.qp, {{0x1000, 400, 0x7777}});
  member.receive();
  send();
  EXPECT_EQ(pair.wait_status(broken.cq), Status::kLocalProtectionError);
  expect(member);
  EXPECT_TRUE(pair.run_until([&] { return broken.qp.qp.state == QpState::kError; }));
  EXPECT_EQ(sender.qp.qp.state, QpState::kRts);
}

INSTANTIATE_TEST_SUITE_P(Engine, MulticastGroups, ::testing::Values(Way::kLocal, Way::kWire),
                         way_name);

TEST(MulticastBounds, GroupsOfAQueuePairAndMembersOfATenant) {
  Pair pair(Way::kLocal);
  const auto group = [](std::uint32_t i) { return Gid::from_ipv4(0xe0000200 + i); };
  Endpoint many(*pair.a);
  for (std::uint32_t i = 0; i < abi::kMaxMulticastGroups; ++i) EXPECT_TRUE(many.attach(group(i)));
  EXPECT_FALSE(many.attach(group(abi::kMaxMulticastGroups)));
  EXPECT_TRUE(many.attach(group(0))) << "it is a member";
  EXPECT_TRUE(many.detach(group(0)));
  EXPECT_TRUE(many.attach(group(abi::kMaxMulticastGroups)));

  std::vector<std::unique_ptr<Endpoint>> members;
  for (std::uint32_t i = 0; i <= abi::kMaxMulticastMembers; ++i)
    members.push_back(std::make_unique<Endpoint>(*pair.a));
  for (std::uint32_t i = 0; i < abi::kMaxMulticastMembers; ++i) EXPECT_TRUE(members[i]->attach());
  EXPECT_FALSE(members.back()->attach());
  EXPECT_TRUE(Endpoint(*pair.b).attach()) << "another tenant";
  EXPECT_TRUE(members[0]->detach());
  EXPECT_TRUE(members.back()->attach());
}

/// Two ports of one adapter on the same network: each member gets exactly one copy.
TEST(MulticastPorts, OneCopyForEach) {
  World world;
  auto [left, right] = port::MemoryPort::make_pair();
  Adapter& adapter = world.add();
  adapter.add_port(std::move(left), address(1));
  adapter.add_port(std::move(right), address(2));
  adapter.add_tenant("left", address(1), PortId(0));
  adapter.add_tenant("right", address(2), PortId(1));
  Tenant& both = adapter.add_tenant("both", address(3), PortId(0));
  both.addresses.push_back({address(4), PortId(1)});
  adapter.add_tenant("inside", address(5));
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<std::unique_ptr<Endpoint>> ends;
  for (const auto& tenant : adapter.tenants) {
    processes.push_back(std::make_unique<Process>(adapter, *tenant));
    ends.push_back(std::make_unique<Endpoint>(*processes.back()));
    EXPECT_TRUE(ends.back()->attach());
  }
  for (const auto& sender : ends) {
    for (const auto& end : ends)
      for (int i = 0; i < 2; ++i) end->receive();
    sender->send(sender->process.make_buffer(200));
    world.run_for(std::chrono::milliseconds(1));
    for (const auto& end : ends) {
      std::size_t copies = 0;
      for (const Completed& c : end->cq.poll_all()) copies += c.is_receive;
      EXPECT_EQ(copies, 1u) << sender->process.tenant.name << " to " << end->process.tenant.name;
    }
  }
  for (const auto& process : processes) process->end();
}

/// A network of its own is not reached from another one.
TEST(MulticastPorts, OtherNetworksAreNotReached) {
  World world;
  auto [left, left_end] = port::MemoryPort::make_pair();
  auto [right, right_end] = port::MemoryPort::make_pair();
  Adapter& adapter = world.add();
  adapter.add_port(std::move(left), address(1));
  adapter.add_port(std::move(right), address(2));
  Process a(adapter, adapter.add_tenant("left", address(1), PortId(0)));
  Process b(adapter, adapter.add_tenant("right", address(2), PortId(1)));
  Endpoint sender(a), near(a), far(b);
  for (Endpoint* member : {&near, &far}) {
    EXPECT_TRUE(member->attach());
    member->receive();
  }
  sender.send(a.make_buffer(200));
  world.run_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(near.cq.poll());
  EXPECT_FALSE(far.cq.poll());
}

}  // namespace
}  // namespace softhca::engine
