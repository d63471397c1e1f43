// SPDX-License-Identifier: Apache-2.0

// Queue pairs that several clients share: what they let through, without an engine.
#include "daemon/engine/datagrams/shared_qps_fairness.hpp"

#include <poll.h>

#include "daemon/engine/records/costs.hpp"
#include "tests/unit/engine/fixture/datagram_parts.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;
using transport::Count;

class Shared : public DatagramParts {
 protected:
  static Datagram datagram(const Gid& to, TenantId tenant = TenantId(0), bool gives_way = false) {
    Datagram out;
    out.path = {.source = kNear, .destination = to, .port = PortId(0)};
    out.peer = kPeer;
    out.tenant = tenant;
    out.gives_way = gives_way;
    return out;
  }
  /// The clients send it, and it is taken.
  void send(const Datagram& sent) {
    ASSERT_TRUE(service.send(sent));
    services.run();
  }
  std::size_t waiting() { return service.endpoint().waiting.size(); }
  std::uint64_t unresolved() { return service.counters().unresolved.value(); }
  std::uint64_t received() { return service.counters().received.value(); }
  std::uint32_t buffers_in_use() {
    return static_cast<std::uint32_t>(service.pool().counters().in_use.value());
  }
  /// From a host, as a packet.
  void receive(std::span<const std::byte> payload, std::uint32_t qkey = kGeneralServicesQkey,
               const Gid& source = kFar) {
    arrive(datagram_to(kGeneralServicesQpn, qkey), payload, {.source = source});
  }
  bool is_readable() const {
    pollfd fd{service.event_fd(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }

  SharedQp& service = open();
};

TEST_F(Shared, ANumberIsOneServices) {
  const std::size_t sessions = intake.sessions().size();
  auto twin = SharedQp::make(party, {}, clock.now);
  EXPECT_FALSE(services.open(**twin));
  EXPECT_EQ(intake.sessions().size(), sessions) << "nothing is left of it";
  open({.queue_pair = kProgramQueuePair});
  EXPECT_EQ(queue_pairs.find(kGeneralServicesQpn)->clients, &service);
  EXPECT_NE(queue_pairs.find(kProgramQueuePair.qpn), nullptr);
}

TEST_F(Shared, WhatEndsGivesAllBack) {
  far.introduce();
  const std::uint32_t handle = service.endpoint().handles[0];
  EXPECT_NE(handles.find(handle), nullptr);
  send(datagram(kFar));
  close(service);
  EXPECT_EQ(queue_pairs.find(kGeneralServicesQpn), nullptr);
  EXPECT_EQ(handles.find(handle), nullptr);
  EXPECT_EQ(pcbs.group(party.qos_class).all_in_use.value(), 0u);
  EXPECT_EQ(services.run(), 0u);
  EXPECT_FALSE(services.has_work());
}

// --- what comes

TEST_F(Shared, BuffersComeBackWhenClientsHaveReleasedThem) {
  receive(message());
  EXPECT_EQ(buffers_in_use(), 1u);
  ASSERT_NE(service.front(), nullptr);
  EXPECT_EQ(service.front()->path.source, kNear);
  EXPECT_EQ(service.front()->path.destination, kFar);
  EXPECT_EQ(service.front()->peer, kPeer);
  EXPECT_EQ(services.take_back_buffers(), 0u);
  service.pop();
  EXPECT_TRUE(services.has_work());
  EXPECT_EQ(services.take_back_buffers(), 1u);
  EXPECT_EQ(buffers_in_use(), 0u);
}

TEST_F(Shared, ClientsAreToldOnceInAStep) {
  receive(message());
  receive(message());
  EXPECT_FALSE(is_readable());
  services.announce();
  EXPECT_TRUE(is_readable());
  service.clear_event();
  services.announce();
  EXPECT_FALSE(is_readable()) << "nothing has come since";
}

TEST_F(Shared, OnlyItsQkeyIsTaken) {
  receive(message(), kGeneralServicesQkey + 1);
  EXPECT_EQ(received(), 0u);
  EXPECT_EQ(party.counters.value(Count::kBadQkey), 1u);
}

TEST_F(Shared, WhatFitsNoBufferOrNamesNoClientIsCounted) {
  receive(message(Datagram::kBytes + 4));
  receive(message(kSelectorBytes - 1));
  EXPECT_EQ(service.counters().bad_length.value(), 2u);
  receive(message(kSelectorBytes));
  EXPECT_EQ(received(), 1u);
}

/// Whatever the sender: a look is all it costs, and the queue pair pays.
TEST_F(Shared, WhatIsDiscardedCostsALook) {
  const std::uint64_t before = party.counters.engine_time.value();
  receive(std::vector<std::byte>(64, std::byte{0x44}));
  EXPECT_EQ(received(), 0u);
  EXPECT_EQ(party.counters.engine_time.value() - before, kDiscardCost);
  EXPECT_EQ(tenant.counters.engine_time.value(), 0u);
}

TEST_F(Shared, FromAQueuePairInsideItIsTheSame) {
  TestQp& sender = make_ud(kGeneralServicesQkey);
  Buffer& from = make_buffer(Datagram::kBytes + 1);
  const auto begin = message();
  std::copy(begin.begin(), begin.end(), from.data());
  const std::uint32_t ah = make_ah(kNear);
  const auto work = [&](std::size_t bytes, std::uint32_t qkey = kGeneralServicesQkey) {
    return Work{.sge = {from.part(0, bytes)},
                .remote_qpn = kGeneralServicesQpn.value,
                .remote_qkey = qkey,
                .address_handle = ah};
  };
  post(sender, work(Datagram::kBytes));
  post(sender, work(Datagram::kBytes + 1));
  post(sender, work(Datagram::kBytes, 0x1234));
  run();
  for (const std::uint32_t index : {0u, 1u, 2u}) expect_completion(index, Status::kSuccess);
  EXPECT_EQ(received(), 1u);
  EXPECT_EQ(service.counters().bad_length.value(), 1u);
  EXPECT_EQ(party.counters.value(Count::kBadQkey), 1u);
  ASSERT_NE(service.front(), nullptr);
  EXPECT_EQ(service.front()->peer, sender.qp.qpn);
  EXPECT_FALSE(service.front()->path.port);
}

TEST_F(Shared, MemoryThatIsGoneTakesNoBuffer) {
  TestQp& sender = make_ud(kGeneralServicesQkey);
  Buffer& from = make_buffer(64);
  post(sender, {.sge = {from.all()},
                .remote_qpn = kGeneralServicesQpn.value,
                .remote_qkey = kGeneralServicesQkey,
                .address_handle = make_ah(kNear)});
  region_access.keys().erase(from.key);
  run();
  EXPECT_EQ(cq.poll()->status, Status::kLocalProtectionError);
  EXPECT_EQ(buffers_in_use(), 0u);
}

// --- its share of the engine

class ShareOfEngine : public Shared {
 protected:
  /// From as many hosts, each of which sends little.
  void flood(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      receive(message(), kGeneralServicesQkey, Gid::from_ipv4(0x0a010000 + i));
      while (service.front() != nullptr) service.pop();
      services.take_back_buffers();
    }
  }
  std::uint64_t over_share() { return service.counters().over_share.value(); }
};

TEST_F(ShareOfEngine, NobodyElseWantsTheEngineSoThereIsNoLimit) {
  service.set_engine_share(0);
  flood(200);
  EXPECT_EQ(over_share(), 0u);
}

TEST_F(ShareOfEngine, WhileOthersWantItThereIsNoMoreThanItsShare) {
  service.set_engine_share(0);
  make_connected();
  ASSERT_TRUE(cpu.contended(party.qos_class));
  flood(200);
  EXPECT_GT(over_share(), 0u);
  EXPECT_EQ(buffers_in_use(), 0u);
  EXPECT_GE(received(), 20u) << "a little is let through";
  const std::uint64_t before = received();
  clock.now += milliseconds(10);
  flood(10);
  EXPECT_EQ(received(), before + 10) << "in each window";
}

// --- what clients send

TEST_F(Shared, WhatClientsSendBecomesCommands) {
  far.introduce();
  Datagram sent = datagram(kFar);
  sent.payload.fill(std::byte{9});
  sent.length = 100;
  send(sent);
  EXPECT_EQ(service.counters().sent.value(), 1u);
  EXPECT_FALSE(services.has_work());
  run();
  const auto frames = far.receive();
  ASSERT_EQ(frames.size(), 1u);
  wire::ParsedFrame parsed;
  ASSERT_EQ(wire::parse_frame(frames[0], parsed), wire::DropReason::kNone);
  EXPECT_EQ(parsed.headers.destination, kPeer);
  EXPECT_EQ(parsed.headers.source, kGeneralServicesQpn);
  EXPECT_EQ(parsed.headers.qkey, kGeneralServicesQkey);
  ASSERT_EQ(parsed.payload.size(), 100u);
  EXPECT_EQ(parsed.payload[99], std::byte{9});
}

TEST_F(Shared, WhatFindsNoBufferStaysWithTheClients) {
  far.introduce();
  const auto sent = [&] { return service.counters().sent.value(); };
  for (int i = 0; i < 12; ++i) send(datagram(kFar));
  EXPECT_GT(sent(), 0u);
  EXPECT_LT(sent(), 12u);
  EXPECT_TRUE(services.has_work());
  for (int i = 0; i < 4; ++i) {
    run();
    services.run();
  }
  run();
  EXPECT_EQ(sent(), 12u);
  EXPECT_EQ(far.receive().size(), 12u);
}

TEST_F(Shared, WhatIsForAnUnknownNeighbourWaitsBesideAndThenGoes) {
  send(datagram(kFar));
  EXPECT_EQ(waiting(), 1u);
  EXPECT_EQ(services.next_deadline(), clock.now + milliseconds(1));
  far.introduce();
  EXPECT_EQ(services.run(), 0u) << "it is not tried again yet";
  clock.now += milliseconds(1);
  services.run();
  EXPECT_EQ(waiting(), 0u);
  EXPECT_EQ(services.next_deadline(), kNever);
  EXPECT_EQ(service.counters().sent.value(), 1u);
}

TEST_F(Shared, WhoDoesNotAnswerIsNotWaitedForForEver) {
  send(datagram(address(77)));
  clock.now += milliseconds(999);
  services.run();
  EXPECT_EQ(waiting(), 1u);
  clock.now += milliseconds(1);
  services.run();
  EXPECT_EQ(waiting(), 0u);
  EXPECT_EQ(unresolved(), 1u);
}

TEST_F(Shared, WhereNoNetworkLeadsIsNotWaitedFor) {
  send(datagram(Gid::from_ipv4(0x0b000001)));
  EXPECT_EQ(waiting(), 0u);
  EXPECT_EQ(unresolved(), 1u);
}

TEST_F(Shared, PlacesToWaitAreBoundedForAPeerATenantAndAKind) {
  const auto made_up = [](std::uint32_t n) { return address(10 + n); };
  for (int i = 0; i < 6; ++i) send(datagram(made_up(0), TenantId(3), true));
  EXPECT_EQ(waiting(), 4u) << "for one peer";
  for (std::uint32_t i = 1; i < 20; ++i) send(datagram(made_up(i), TenantId(3), true));
  EXPECT_EQ(waiting(), 16u) << "of one tenant";
  for (std::uint16_t other = 4; other < 12; ++other)
    for (std::uint32_t i = 0; i < 20; ++i) send(datagram(made_up(i), TenantId(other), true));
  EXPECT_EQ(waiting(), 64u) << "of programs";
  EXPECT_EQ(unresolved(), 6 + 19 + 8 * 20 - 64u);
  send(datagram(made_up(0), TenantId(3), false));
  EXPECT_EQ(waiting(), 65u) << "the daemon's own have their half";
}

}  // namespace
}  // namespace softhca::engine
