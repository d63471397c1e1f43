// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/cm_world.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tests/sim/failure.hpp"

namespace softhca::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMostSteps = 200'000;

class CmWorld {
 public:
  CmWorld(const CmSettings& settings, std::uint64_t seed, CmCounts& counts)
      : s_(settings),
        random_(seed),
        link_(settings.faults, random_),
        hosts_{CmHost(0, s_.habits, link_, random_, counts),
               CmHost(1, s_.habits, link_, random_, counts)} {
    for (CmHost& host : hosts_) host.hosts = {&hosts_[0], &hosts_[1]};
    for (const int side : {0, 1}) {
      for (std::uint32_t i = 0; i < s_.connects; ++i)
        hosts_[side].plan_connect(random_.chance(0.15) ? side : 1 - side, any_time());
      for (std::uint32_t i = 0; i < s_.questions; ++i)
        hosts_[side].plan_question(1 - side, any_time());
    }
    if (s_.restart) restart_at_ = any_time();
    if (s_.parted) parted_from_ = any_time();
  }

  void run() {
    run_until_quiet();
    for (const CmHost& host : hosts_) host.check_settled();
    // What the two cannot agree on while nothing gets through no protocol can.
    if (!s_.parted) check_pairs();
    for (CmHost& host : hosts_) host.close_all(now_);
    run_until_quiet();
    for (const CmHost& host : hosts_) {
      host.check_empty();
      if (s_.habits.are_benign() && !s_.restart && !s_.parted) host.check_succeeded();
      host.add_counts();
    }
  }

 private:
  Time any_time() {
    const auto span = static_cast<std::uint64_t>(s_.begin_within.count());
    return Time(Duration(static_cast<Duration::rep>(random_.next() % span)));
  }

  Time next_event() const {
    Time next = std::min(link_.next_arrival(), restart_at_);
    for (const CmHost& host : hosts_) next = std::min(next, host.next_event());
    return next;
  }

  void run_until_quiet() {
    for (std::uint32_t steps = 0; next_event() != kNever; ++steps) {
      require(steps < kMostSteps, "never quiet");
      now_ = std::max(now_, next_event());
      if (restart_at_ <= now_) restart();
      deliver();
      for (CmHost& host : hosts_) host.step(now_);
    }
  }

  void restart() {
    restart_at_ = kNever;
    CmHost& host = hosts_[random_.below(2)];
    host.restart();
    for (std::uint32_t i = 0; i < s_.connects; ++i)
      host.plan_connect(&host == &hosts_[0] ? 1 : 0, now_ + Duration(1s) * random_.below(20));
  }

  void deliver() {
    while (link_.next_arrival() <= now_) {
      const Arrival arrival = link_.take();
      const int from = std::to_integer<int>(arrival.frame[0]);
      const bool parted = now_ >= parted_from_ && now_ < parted_from_ + 300s;
      if (from != arrival.side && parted) continue;
      hosts_[arrival.side].receive(from, std::span(arrival.frame).subspan(1), now_);
    }
  }

  /// Checks that the peer of each connection is established and connected to it, and that both ends
  /// have the same attributes. Skips connections to a host that has restarted since.
  void check_pairs() {
    for (CmHost& host : hosts_)
      host.manager().for_each([&](const cm::ConnectionView& view) {
        CmHost& other = hosts_[view.path.remote == CmHost::gid_of(0) ? 0 : 1];
        if (host.peer_generation(view.id) != other.generation()) return;
        const auto peer = other.manager().view(cm::CommId(view.remote_comm_id));
        require(peer.has_value(), "connected to nothing", view.active);
        require(peer->state == cm::State::kEstablished, "only one end is established",
                static_cast<unsigned>(peer->state));
        require(peer->remote_comm_id == view.id.value, "connected to another's end");
        require(peer->active != view.active, "both ends asked");
        require(peer->local_qpn == view.remote_qpn, "queue pair numbers");
        check_attributes(*host.manager().queue_pair_attributes(view.id),
                         *other.manager().queue_pair_attributes(peer->id));
      });
  }

  static void check_attributes(const cm::QueuePairAttributes& a, const cm::QueuePairAttributes& b) {
    require(a.may_connect && b.may_connect, "attributes are known");
    require(a.rq_psn == b.sq_psn, "packet sequence numbers", a.rq_psn.value());
    require(a.path_mtu == b.path_mtu, "path MTU");
    require(a.responder_resources == b.initiator_depth, "reads in flight", a.responder_resources);
    require(a.path.local == b.path.remote, "addresses");
  }

  const CmSettings s_;
  Random random_;
  Link link_;
  std::array<CmHost, 2> hosts_;
  Time now_{};
  Time restart_at_ = kNever;
  Time parted_from_ = Time::max() - 301s;
};

}  // namespace

CmSettings random_cm_settings(Random& random) {
  constexpr double kRates[] = {0, 0, 0.01, 0.05, 0.1, 0.2};
  CmSettings s;
  s.faults.drop = kRates[random.below(6)];
  s.faults.duplicate = kRates[random.below(6)];
  s.faults.reorder = kRates[random.below(6)];
  s.faults.delay = Duration(1ms) * random.between(0, 300);
  s.faults.reorder_delay = Duration(1ms) * random.between(1, 4000);
  s.habits.silence = random.chance(0.2) ? 0.3 : 0;
  s.habits.refuse = random.chance(0.3) ? 0.2 : 0;
  s.habits.reject = random.chance(0.5) ? 0.2 : 0;
  s.habits.die = random.chance(0.5) ? 0.1 : 0;
  s.habits.longest_thought = random.chance(0.2) ? 20s : 500ms;
  s.connects = random.between(1, 12);
  s.questions = random.between(0, 3);
  s.begin_within = random.chance(0.5) ? 20s : 50ms;
  s.restart = random.chance(0.2);
  s.parted = random.chance(0.1);
  return s;
}

void run_cm(const CmSettings& settings, std::uint64_t seed, CmCounts& counts) {
  CmWorld(settings, seed, counts).run();
}

bool check_cm_coverage(const CmCounts& counts) {
  bool good = true;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::printf("connection event %2zu: %llu\n", i, static_cast<unsigned long long>(counts[i]));
    good = good && counts[i] > 0;
  }
  if (!good) std::printf("some event of connections never happened\n");
  return good;
}

}  // namespace softhca::sim
