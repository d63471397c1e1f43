// SPDX-License-Identifier: Apache-2.0

// Which datagrams are followed, and what is asked and answered, without an engine.
#include "daemon/engine/queue_pairs/ud_congestion.hpp"

#include <optional>

#include "tests/unit/engine/fixture/datagram_parts.hpp"

namespace softhca::engine {
namespace {

using std::chrono::milliseconds;

const Qpn kTheirs(0x123456);

class UdCongestionTest : public DatagramParts {
 protected:
  UdCongestionTest() {
    far.introduce();
    ud_congestion.configure({.rpg_max_rate = 1000}, {});
    route.path = {.source = kNear, .destination = kFar, .port = PortId(0)};
  }

  /// Sends `n` datagrams of 1000 bytes, all within the same time, without the queue pair's part.
  /// Returns how many went.
  int send(int n, TestQp& from, Qpn to = kTheirs) {
    for (int i = 0; i < n; ++i) {
      DatagramPath* path = ud_congestion.path_of(from.qp, to, route);
      if (path != nullptr && !ud_congestion.may_send(from.qp, route, *path)) return i;
      UdCongestion::mark(route, path);
      const wire::Headers h = datagram_to(to, kQkey);
      EXPECT_EQ(packets.send(route, h, {}, &from.qp), transport::SendResult::kSent);
      if (path == nullptr) path = ud_congestion.path_of(from.qp, to, route);
      if (path != nullptr) ud_congestion.sent(from.qp, *path, 1000);
    }
    return n;
  }
  /// The questions that have come to the far host.
  std::vector<wire::DatagramQuestion> questions() {
    packets.finish_batch();
    std::vector<wire::DatagramQuestion> found;
    for (auto sent = far.receive(); !sent.empty(); sent = far.receive())
      for (const auto& bytes : sent) {
        wire::ParsedFrame frame;
        EXPECT_EQ(wire::parse_frame(bytes, frame), wire::DropReason::kNone);
        if (frame.headers.destination != kGeneralServicesQpn) continue;
        const auto question = wire::decode_datagram_question(frame.payload);
        EXPECT_TRUE(question);
        EXPECT_EQ(frame.headers.qkey, kGeneralServicesQkey);
        if (question) found.push_back(*question);
      }
    return found;
  }
  static wire::Headers management() {
    wire::Headers h = datagram_to(kGeneralServicesQpn, kGeneralServicesQkey);
    h.source = kGeneralServicesQpn;
    return h;
  }
  void arrive_answer(const wire::DatagramAnswer& answer) {
    arrive(management(), wire::encode(answer));
  }
  /// What is answered to a question from `source`.
  std::optional<wire::DatagramAnswer> ask(std::uint64_t id, const Gid& source) {
    arrive(management(), wire::encode(wire::DatagramQuestion{.id = id, .mark = 9}),
           {.source = source});
    packets.finish_batch();
    const auto sent = far.receive();
    if (sent.empty()) return std::nullopt;
    EXPECT_EQ(sent.size(), 1u);
    wire::ParsedFrame frame;
    EXPECT_EQ(wire::parse_frame(sent[0], frame), wire::DropReason::kNone);
    EXPECT_EQ(frame.destination, source);
    EXPECT_EQ(frame.source, kNear);
    const auto answer = wire::decode_datagram_answer(frame.payload);
    EXPECT_TRUE(answer);
    return answer;
  }
  std::uint32_t slowed() const { return tenant.counters.congestion.slowed_paths.value(); }
  /// For a time, datagrams go as fast as they may, and the peer answers that so many have come.
  template <class Until>
  void exchange(TestQp& from, double part, Until&& until) {
    for (int i = 0; i < 300 && !until(); ++i) {
      clock.now += std::chrono::microseconds(100);
      came += send(20, from) * part;
      const auto packets_come = static_cast<std::uint64_t>(came);
      for (const wire::DatagramQuestion& question : questions())
        arrive_answer({.id = question.id,
                       .counts = true,
                       .packets = packets_come,
                       .bytes = packets_come * 1000});
    }
    EXPECT_TRUE(until());
  }
  /// The path is followed, and not slowed down.
  void follow(TestQp& from) {
    exchange(from, 1, [&] { return slowed() != 0; });
    exchange(from, 1, [&] { return slowed() == 0; });
  }
  /// Half of the datagrams are lost.
  void lose_half(TestQp& from) {
    follow(from);
    exchange(from, 0.5, [&] { return slowed() != 0; });
  }

  Route route;
  double came = 0;
};

TEST_F(UdCongestionTest, FewDatagramsAreNotFollowed) {
  TestQp& from = make_ud();
  for (int i = 0; i < 20; ++i) {
    send(50, from);
    clock.now += milliseconds(11);
  }
  EXPECT_TRUE(questions().empty());
  EXPECT_EQ(tenant.counters.congestion.questions.value(), 0u);
}

TEST_F(UdCongestionTest, ManyAreAskedFor) {
  TestQp& from = make_ud();
  send(100, from);
  EXPECT_EQ(questions().size(), 1u);
  EXPECT_EQ(tenant.counters.congestion.questions.value(), 1u);
}

TEST_F(UdCongestionTest, NeitherTheDaemonsOwnNorThoseToThemAreFollowed) {
  TestQp& from = make_ud();
  send(100, from, kGeneralServicesQpn);
  EXPECT_EQ(tenant.counters.congestion.questions.value(), 0u);
  EXPECT_EQ(ud_congestion.path_of(opened.empty() ? from.qp : opened[0]->endpoint().qp,
                                  kGeneralServicesQpn, route),
            nullptr);
}

TEST_F(UdCongestionTest, LossSlowsThePathDownForAllQueuePairs) {
  TestQp& from = make_ud();
  lose_half(from);
  EXPECT_EQ(slowed(), 1u);
  TestQp& other = make_ud();
  send(100, from);
  EXPECT_EQ(send(1, other), 0);
  EXPECT_GT(other.qp.connection.flow.wake_at(), clock.now);
  EXPECT_NE(other.qp.connection.flow.wake_at(), kNever);
}

TEST_F(UdCongestionTest, APathThatRestsIsForgotten) {
  TestQp& from = make_ud();
  lose_half(from);
  ASSERT_EQ(slowed(), 1u);
  clock.now += std::chrono::seconds(11);
  EXPECT_EQ(send(50, from), 50);
  EXPECT_EQ(slowed(), 0u);
}

TEST_F(UdCongestionTest, SwitchedOffItForgets) {
  TestQp& from = make_ud();
  lose_half(from);
  ASSERT_EQ(slowed(), 1u);
  ud_congestion.configure({.datagrams = false, .rpg_max_rate = 1000}, {});
  EXPECT_EQ(slowed(), 0u);
  EXPECT_EQ(send(30, from), 30);
  EXPECT_TRUE(questions().empty());
  EXPECT_FALSE(ask(1, kFar)) << "nor is a probe answered";
}

TEST_F(UdCongestionTest, AnotherAddressCannotAnswer) {
  TestQp& from = make_ud();
  send(100, from);
  const auto asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  const wire::DatagramAnswer answer{.id = asked[0].id, .counts = true};
  arrive(management(), wire::encode(answer), {.source = address(77)});
  EXPECT_FALSE(ud_congestion.path_of(from.qp, kTheirs, route)->flow.is_answered());
  arrive_answer({.id = asked[0].id + 1, .counts = true});
  EXPECT_FALSE(ud_congestion.path_of(from.qp, kTheirs, route)->flow.is_answered());
  arrive_answer(answer);
  EXPECT_TRUE(ud_congestion.path_of(from.qp, kTheirs, route)->flow.is_answered());
}

TEST_F(UdCongestionTest, ANotificationSlowsAPathOfAPeerThatAnswersDown) {
  TestQp& from = make_ud();
  send(100, from);
  wire::ParsedFrame notification;
  notification.source = kFar;
  notification.destination = kNear;
  EXPECT_FALSE(ud_congestion.notified(from.qp, notification));
  const auto asked = questions();
  ASSERT_EQ(asked.size(), 1u);
  arrive_answer({.id = asked[0].id, .counts = true});
  exchange(from, 1, [&] { return slowed() == 0; });
  EXPECT_TRUE(route.cc_enabled);
  EXPECT_TRUE(ud_congestion.notified(from.qp, notification));
  EXPECT_EQ(slowed(), 1u);
  notification.source = address(77);
  EXPECT_FALSE(ud_congestion.notified(from.qp, notification));
  ud_congestion.configure({.datagrams = false}, {});
  send(1, from);
  EXPECT_FALSE(route.cc_enabled) << "no sender would react";
}

// --- the other side

TEST_F(UdCongestionTest, AnswersWithWhatHasComeSinceTheFirstQuestion) {
  TestQp& to = make_ud();
  const std::vector<std::byte> payload(100);
  arrive(datagram_to(to.qp.qpn, kQkey), payload);
  const auto first = ask(5, kFar);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, 5u);
  EXPECT_EQ(first->mark, 9u);
  EXPECT_TRUE(first->counts);
  EXPECT_EQ(first->packets, 0u);
  // The answer also counts datagrams to an unknown queue pair. It does not count those of another
  // sender, of another traffic class, or to the daemon.
  for (const Qpn number : {to.qp.qpn, Qpn(0x777777)}) arrive(datagram_to(number, kQkey), payload);
  arrive(datagram_to(to.qp.qpn, kQkey), payload, {.source = address(77)});
  arrive(datagram_to(to.qp.qpn, kQkey), payload, {.traffic_class = 0x20});
  arrive(datagram_to(kGeneralServicesQpn, kGeneralServicesQkey), payload);
  clock.now += milliseconds(1);
  const auto second = ask(6, kFar);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->since, first->since);
  EXPECT_EQ(second->packets, 2u);
  EXPECT_EQ(second->bytes, 200u);
}

/// Otherwise a host that forges a peer's address could use up the answers of that peer.
TEST_F(UdCongestionTest, EachQuestionHasAnAnswer) {
  for (std::uint64_t id = 1; id < 10; ++id) EXPECT_TRUE(ask(id, kFar)) << id;
}

TEST_F(UdCongestionTest, NobodyIsAskedWhenTheLastAskerHasGone) {
  EXPECT_FALSE(ud_congestion.is_asked());
  ask(1, kFar);
  EXPECT_TRUE(ud_congestion.is_asked());
  clock.now += std::chrono::seconds(3);
  EXPECT_FALSE(ud_congestion.is_asked());
}

/// Hosts that still send probes keep their entries while others arrive. A host that stops sending
/// them loses its entry.
TEST_F(UdCongestionTest, AddressesThatAreMadeUpTakeNoPlacesAway) {
  const auto first = ask(1, kFar);
  ASSERT_TRUE(first);
  int answered = 0;
  for (std::uint32_t i = 0; i < 500; ++i)
    answered += ask(2, Gid::from_ipv4(0x0a010000 + i)).has_value();
  EXPECT_EQ(answered, 63);
  clock.now += std::chrono::seconds(1);
  const auto again = ask(3, kFar);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->since, first->since);
  clock.now += std::chrono::seconds(3);
  const auto other = ask(4, Gid::from_ipv4(0x0a020000));
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->counts);
}

TEST_F(UdCongestionTest, OddQuestionsAreNotAnswered) {
  wire::Headers h = management();
  const wire::Mad mad = wire::encode(wire::DatagramQuestion{.id = 1});
  const auto silent = [&](const wire::Headers& headers, std::span<const std::byte> bytes,
                          const wire::FramePath& path = {}) {
    arrive(headers, bytes, path);
    packets.finish_batch();
    return far.receive().empty();
  };
  h.qkey = 1;
  EXPECT_TRUE(silent(h, mad));
  h = management();
  h.source = Qpn(77);
  EXPECT_TRUE(silent(h, mad)) << "an answer to another queue pair";
  h = management();
  EXPECT_TRUE(silent(h, std::span(mad).first(100)));
  EXPECT_TRUE(silent(h, mad, {.source = Gid::from_ipv4(0xe0000101)})) << "a group";
  EXPECT_TRUE(silent(h, mad, {.destination = address(88)})) << "nobody's address";
  h.pkey = 0x1234;
  EXPECT_TRUE(silent(h, mad));
  h = management();
  EXPECT_FALSE(silent(h, mad));
}

}  // namespace
}  // namespace softhca::engine
