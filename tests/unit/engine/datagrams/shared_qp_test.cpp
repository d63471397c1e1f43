// SPDX-License-Identifier: Apache-2.0

// Queue pairs that several clients share: what clients send and receive, from each other and from
// queue pairs of programs, inside one daemon and between two.
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint8_t kClass = 7;

class Services : public BothWays {
 protected:
  Services() : pair(GetParam()) {
    for (const auto& adapter : pair.adapters) {
      Tenant& party = adapter->add_tenant("services", address(200));
      auto made = SharedQp::make(party, {}, pair.now);
      services.push_back(std::move(*made));
      EXPECT_TRUE(adapter->engine.datagram_services().open(*services.back()));
      for (const auto& tenant : adapter->tenants) {
        const auto id = services.back()->pool().register_client(client_key(tenant->id, kClass),
                                                                "test of " + tenant->name);
        EXPECT_TRUE(id);
      }
    }
  }
  ~Services() {
    for (std::size_t i = 0; i < services.size(); ++i)
      pair.adapters[i]->engine.datagram_services().close(*services[i]);
  }

  SharedQp& sender() { return *services.front(); }
  SharedQp& receiver() { return *services.back(); }
  Tenant& tenant_b() { return pair.b->tenant; }

  /// From tenant a's address to tenant b's.
  Datagram datagram(std::uint8_t first, std::uint32_t to = 2) const {
    Datagram out;
    out.path.source = address(1);
    out.path.destination = address(to);
    if (!local()) out.path.port = PortId(0);
    out.peer = kGeneralServicesQpn;
    out.payload.fill(std::byte{first});
    out.payload[kClassOffset] = std::byte{kClass};
    out.payload[kMethodOffset] = std::byte{1};
    return out;
  }
  bool local() const { return GetParam() == Way::kLocal; }
  const Datagram* wait_for_datagram() {
    pair.run_until([&] { return receiver().front() != nullptr; });
    return receiver().front();
  }

  Pair pair;
  std::vector<std::unique_ptr<SharedQp>> services;
};

TEST_P(Services, ADatagramComesWithTheWayBack) {
  ASSERT_TRUE(sender().send(datagram(0x5a)));
  const Datagram* got = wait_for_datagram();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->payload, datagram(0x5a).payload);
  EXPECT_EQ(got->length, Datagram::kBytes);
  EXPECT_EQ(got->peer, kGeneralServicesQpn);
  EXPECT_EQ(got->tenant, tenant_b().id);
  EXPECT_EQ(got->path.source, address(2));
  EXPECT_EQ(got->path.destination, address(1));
  EXPECT_EQ(got->path.port.has_value(), !local());
  receiver().pop();
  EXPECT_EQ(receiver().front(), nullptr);
}

TEST_P(Services, TheEventTellsOnceUntilItIsCleared) {
  const auto readable = [&] {
    std::uint64_t count = 0;
    return ::read(receiver().event_fd(), &count, sizeof count) == sizeof count;
  };
  EXPECT_FALSE(readable());
  ASSERT_TRUE(sender().send(datagram(1)));
  ASSERT_NE(wait_for_datagram(), nullptr);
  EXPECT_TRUE(readable());
  ASSERT_TRUE(sender().send(datagram(2)));
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(readable());  // not cleared yet: no second write
  receiver().clear_event();
  ASSERT_TRUE(sender().send(datagram(3)));
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(readable());
}

TEST_P(Services, ManyGoInOrderAndAllBuffersComeBack) {
  std::uint8_t next = 0;
  for (unsigned sent = 0; sent < 1000; ++sent) {
    ASSERT_TRUE(sender().send(datagram(static_cast<std::uint8_t>(sent))));
    const Datagram* got = wait_for_datagram();
    ASSERT_NE(got, nullptr) << sent;
    EXPECT_EQ(got->payload[0], std::byte{next++});
    receiver().pop();
  }
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_EQ(receiver().pool().counters().in_use.value(), 0u);
  EXPECT_EQ(sender().counters().sent.value(), 1000u);
}

TEST_P(Services, WhatNobodyRegisteredForIsDiscarded) {
  Datagram unknown = datagram(1);
  unknown.payload[kClassOffset] = std::byte{0x44};
  ASSERT_TRUE(sender().send(unknown));
  ASSERT_TRUE(sender().send(datagram(2)));
  const Datagram* got = wait_for_datagram();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->payload[0], std::byte{2});
  using management::gsa::Discard;
  const auto& discarded = receiver().pool().counters().discarded;
  EXPECT_EQ(discarded[static_cast<std::size_t>(Discard::kNoClient)].value(), 1u);
}

TEST_P(Services, ResponsesAreAnothersThanRequests) {
  Datagram response = datagram(1);
  response.payload[kMethodOffset] = std::byte{0x81};
  ASSERT_TRUE(sender().send(response));  // no client is registered for it
  pair.run_for(std::chrono::milliseconds(100));
  ASSERT_TRUE(receiver().pool().register_client(
      client_key(tenant_b().id, class_selector(kClass, true)), "responses"));
  response.payload[0] = std::byte{2};
  ASSERT_TRUE(sender().send(response));
  const Datagram* got = wait_for_datagram();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->payload[0], std::byte{2});
  EXPECT_EQ(selector_of(receiver().key_of(*got)), class_selector(kClass, true));
}

TEST_P(Services, WhatIsTakenStaysInUseUntilItIsReleased) {
  for (std::uint8_t i = 0; i < 3; ++i) ASSERT_TRUE(sender().send(datagram(i)));
  std::vector<std::uint32_t> taken;
  while (taken.size() < 3) {
    ASSERT_NE(wait_for_datagram(), nullptr);
    taken.push_back(receiver().take());
  }
  EXPECT_EQ(receiver().pool().counters().in_use.value(), 3u);
  EXPECT_EQ(receiver().datagram(taken[1]).payload[0], std::byte{1});
  for (const std::uint32_t buffer : taken) receiver().release(buffer);
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_EQ(receiver().pool().counters().in_use.value(), 0u);
}

TEST_P(Services, AnotherQueuePairHasClientsByTheNumberThatDatagramsBeginWith) {
  std::vector<std::unique_ptr<SharedQp>> programs;
  for (const auto& adapter : pair.adapters) {
    Tenant& party = adapter->add_tenant("programs", address(201));
    programs.push_back(
        std::move(*SharedQp::make(party, {.queue_pair = kProgramQueuePair}, pair.now)));
    ASSERT_TRUE(adapter->engine.datagram_services().open(*programs.back()));
    EXPECT_FALSE(adapter->engine.datagram_services().open(*programs.back()));
  }
  SharedQp& to = *programs.back();
  ASSERT_TRUE(to.pool().register_client(client_key(tenant_b().id, 0x01020304), "four"));
  ASSERT_TRUE(to.pool().register_client(client_key(tenant_b().id, 5), "five"));
  Datagram out = datagram(0);
  out.peer = kProgramQueuePair.qpn;
  out.qkey = kProgramQueuePair.qkey;
  out.length = 9;
  for (const std::uint8_t last : {4, 9, 5}) {  // to one, to no client, to the other
    const bool four = last == 4;
    out.payload[0] = std::byte{four};
    out.payload[1] = std::byte{static_cast<std::uint8_t>(four ? 2 : 0)};
    out.payload[2] = std::byte{static_cast<std::uint8_t>(four ? 3 : 0)};
    out.payload[3] = std::byte{last};
    ASSERT_TRUE(programs.front()->send(out));
  }
  std::vector<std::uint32_t> numbers;
  while (numbers.size() < 2) {
    pair.run_until([&] { return to.front() != nullptr; });
    ASSERT_NE(to.front(), nullptr);
    EXPECT_EQ(to.front()->length, 9);
    EXPECT_EQ(to.front()->peer, kProgramQueuePair.qpn);
    numbers.push_back(selector_of(to.key_of(*to.front())));
    to.pop();
  }
  EXPECT_EQ(numbers, (std::vector<std::uint32_t>{0x01020304, 5}));
  for (std::size_t i = 0; i < programs.size(); ++i)
    pair.adapters[i]->engine.datagram_services().close(*programs[i]);
}

TEST_P(Services, AProgramReachesItAndIsAnswered) {
  Process& a = *pair.a;
  TestQp& qa = a.make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  bring_up_datagram(a, qa, kGeneralServicesQkey);
  Buffer& from = a.make_buffer(Datagram::kBytes);
  Buffer& to = a.make_buffer(1000);
  from.fill(3);
  from.data()[kClassOffset] = std::byte{kClass};
  from.data()[kMethodOffset] = std::byte{1};
  a.post_receive(qa, {to.all()});
  a.post(qa, {.sge = {from.all()},
              .remote_qpn = kGeneralServicesQpn.value,
              .remote_qkey = 0x80000000,
              .address_handle = a.make_ah(address(2))});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  const Datagram* got = wait_for_datagram();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(std::memcmp(got->payload.data(), from.data(), Datagram::kBytes), 0);
  EXPECT_EQ(got->peer, qa.qp.qpn);
  ASSERT_TRUE(receiver().send(*got));
  const auto answer = pair.wait(*pair.ca);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->source, kGeneralServicesQpn.value);
  EXPECT_EQ(answer->byte_len, Datagram::kBytes + transport::kRoutingHeaderBytes);
}

TEST_P(Services, AWrongKeyOrLengthIsNotTaken) {
  Datagram wrong = datagram(1);
  wrong.qkey = 0x11111111;
  ASSERT_TRUE(sender().send(wrong));
  Datagram empty = datagram(1);
  empty.length = 1;
  ASSERT_TRUE(sender().send(empty));
  ASSERT_TRUE(sender().send(datagram(9)));
  const Datagram* got = wait_for_datagram();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->payload[0], std::byte{9});
  EXPECT_EQ(receiver().counters().bad_length.value(), 1u);
}

/// Datagrams to an unreachable neighbour do not delay datagrams to other hosts.
TEST_P(Services, AnUnknownNeighbourHoldsUpNobody) {
  for (unsigned i = 0; i < 200; ++i) ASSERT_TRUE(sender().send(datagram(1, 77)));
  ASSERT_TRUE(sender().send(datagram(2)));
  const Time before = pair.now;
  ASSERT_NE(wait_for_datagram(), nullptr);
  EXPECT_LT(pair.now - before, std::chrono::milliseconds(100));
  pair.run_for(std::chrono::seconds(3));
  EXPECT_EQ(sender().counters().unresolved.value(), 200u);
}

TEST_P(Services, AStormOfOneClassTakesNoMoreBuffersThanItsOwn) {
  ASSERT_TRUE(receiver().pool().register_client(client_key(tenant_b().id, 4), "other", 16u));
  for (unsigned i = 0; i < 3000; ++i) {
    while (!sender().send(datagram(1))) pair.step();
    pair.step();
  }
  Datagram other = datagram(4);
  other.payload[kClassOffset] = std::byte{4};
  ASSERT_TRUE(sender().send(other));
  pair.run_for(std::chrono::milliseconds(10));
  bool came = false;
  while (const Datagram* got = receiver().front()) {
    came |= class_of(selector_of(receiver().key_of(*got))) == 4;
    receiver().pop();
  }
  EXPECT_TRUE(came);
}

/// Tenants send to hosts that do not exist, on a network with a large address range.
class MadeUpNeighbours : public Services {
 protected:
  MadeUpNeighbours() { neighbours().add_address({address(1), 8, true}); }
  neighbour::Neighbours& neighbours() { return *pair.adapters[0]->engine.ports()[0]->neighbours; }

  /// In the range of 10.1.0.0.
  static Gid made_up(std::uint32_t n) { return Gid::from_ipv4(0x0a010000 + n); }

  void flood(TenantId tenant) {
    for (std::uint32_t n = 0; n < 1000; ++n) {
      Datagram out = datagram(9);
      out.path.destination = made_up(n);
      out.tenant = tenant;
      out.gives_way = true;
      while (!sender().send(out)) pair.step();
    }
  }
  void expect_delivery(bool gives_way) {
    Datagram out = datagram(5);
    out.tenant = TenantId(40);
    out.gives_way = gives_way;
    while (!sender().send(out)) pair.step();
    const Time before = pair.now;
    const Datagram* got = wait_for_datagram();
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->payload[0], std::byte{5});
    EXPECT_LT(pair.now - before, std::chrono::milliseconds(100));
    receiver().pop();
  }
};

TEST_P(MadeUpNeighbours, OfOneTenantKeepPlacesForTheProgramsOfOthers) {
  flood(TenantId(20));
  expect_delivery(true);
  EXPECT_LE(neighbours().size(), 17u);  // what waits has asked, and nothing else has
  pair.run_for(std::chrono::seconds(3));
  EXPECT_EQ(sender().counters().unresolved.value(), 1000u);
}

TEST_P(MadeUpNeighbours, OfManyTenantsKeepPlacesForTheDaemon) {
  for (std::uint16_t tenant = 20; tenant < 30; ++tenant) flood(TenantId(tenant));
  expect_delivery(false);
}

TEST_P(MadeUpNeighbours, LeaveTheDaemonRoomInTheQueueOfSends) {
  Datagram out = datagram(9);
  out.gives_way = true;
  while (sender().send(out)) {
  }
  EXPECT_TRUE(sender().send(datagram(5)));
}

/// Whatever of a tenant asks: the owner of the address that packets come from pays.
TEST_P(MadeUpNeighbours, LeaveOthersRoomInTheTableOfNeighbours) {
  Adapter& adapter = *pair.adapters[0];
  adapter.add_tenant("c", address(3), PortId(0));
  const auto reach = [&](const Gid& from, const Gid& to) {
    return adapter.engine.packets().reach_of(
        {.source = from, .destination = to, .port = PortId(0)});
  };
  const auto flood = [&] {
    for (std::uint32_t n = 0; n < 3000; ++n)
      EXPECT_EQ(reach(address(1), made_up(n)), Reach::kUnknown);
  };
  flood();
  EXPECT_EQ(reach(address(3), address(2)), Reach::kUnknown);
  flood();
  pair.run_for(std::chrono::milliseconds(1));
  flood();
  EXPECT_EQ(reach(address(3), address(2)), Reach::kReady);
}

INSTANTIATE_TEST_SUITE_P(Ways, MadeUpNeighbours, ::testing::Values(Way::kWire), way_name);
INSTANTIATE_TEST_SUITE_P(Ways, Services, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
