// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/rc_world.hpp"

#include <algorithm>

#include "daemon/roce/wire/opcode.hpp"

namespace softhca::sim {
namespace {

constexpr Duration kStep = std::chrono::microseconds(1);

struct Side {
  Side(int index, const RcSettings& s, Link& link, Random& random, const Workload& own,
       const Workload& of_peer)
      : model(index, link, random, own, of_peer), workload(own) {
    model.counts_receives = s.counts_receives;
    model.may_fail = s.may_fail;
    model.over_rate = s.over_rate;
    model.receive_capacity = of_peer.longest_send;
    requester.open(requests, s.depth);
    requester.configure(s.attributes);
    responder.configure(s.attributes, {{replays, &replays_used}, kept, account});
    kept.open(s.keeping[index].places);
    kept.set_watermark(s.keeping[index].watermark);
  }

  void receive(const wire::ParsedFrame& p, Time now) {
    if (wire::opcode_info(p.headers.opcode).mask.has_all(wire::kResponse))
      requester.receive(model, p.headers, p.payload, now);
    else
      responder.receive(model, p.headers, p.payload, now);
    settle();
  }

  /// What an engine does in a poll step after the packets are in. True: more to do right away.
  bool step(const RcSettings& s, Random& random, Time now) {
    model.now = now;
    model.held = false;
    model.port_buffers = random.between(1, s.port_buffers);
    if (random.chance(s.receive_rate)) model.post_receives(random.between(1, 4));
    const unsigned budget = random.between(1, 64);
    if (now >= requester.deadline()) requester.expire(model, now);
    settle();
    while (!model.in_error && started < workload.operations.size() && !requester.full())
      requester.start(workload.operations[started++].request);
    bool more = responder.pending() && responder.transmit(model, budget);
    settle();
    more |= requester.transmit(model, now, budget);
    settle();
    return more || model.held;
  }

  /// The engine's part of an error: everything is flushed, also what was never started.
  void settle() {
    if (!model.in_error || flushed) return;
    flushed = true;
    requester.flush(model);
    responder.flush(model);
    while (started < workload.operations.size())
      model.complete_request(PcbId(started++), Verdict::kFlushed);
  }

  Model model;
  const Workload& workload;
  transport::RequestTable requests = transport::RequestTable(workload.operations.size());
  std::vector<transport::Replay> replays =
      std::vector<transport::Replay>(transport::Replays::kMost);
  std::uint8_t replays_used = 0;
  transport::KeptStore kept;
  transport::KeptAccount account;
  transport::Requester requester;
  transport::Responder responder;
  std::uint32_t started = 0;
  bool flushed = false;
};

class World {
 public:
  World(const RcSettings& settings, std::uint64_t seed)
      : s_(settings),
        random_(seed),
        link_(settings.faults, random_),
        workloads_{make_workload(settings.limits, Rkey(0x1001), random_),
                   make_workload(settings.limits, Rkey(0x1000), random_)},
        sides_{Side(0, s_, link_, random_, workloads_[0], workloads_[1]),
               Side(1, s_, link_, random_, workloads_[1], workloads_[0])} {
    for (int i = 0; i < 2; ++i) {
      // Often close below the wrap of the PSN.
      const Psn psn(static_cast<std::uint32_t>(random_.chance(0.5) ? random_.next()
                                                                   : 0u - random_.below(200)));
      sides_[i].requester.reset(psn);
      sides_[1 - i].responder.reset(psn);
      sides_[i].model.peer = &sides_[1 - i].model;
    }
  }

  RcOutcome run(Counts& totals) {
    while (!done()) {
      deliver();
      bool more = false;
      for (Side& side : sides_) more |= side.step(s_, random_, now_);
      advance(more);
    }
    if (!s_.may_fail)
      for (Side& side : sides_) side.model.check_memory();
    for (Side& side : sides_) side.model.add_counts(totals);
    return {link_.frames_sent(), now_ - Time{}};
  }

 private:
  bool done() const { return sides_[0].model.all_completed() && sides_[1].model.all_completed(); }

  void deliver() {
    while (link_.next_arrival() <= now_) {
      const Arrival a = link_.take();
      wire::ParsedFrame parsed;
      if (wire::parse_frame(a.frame, parsed) != wire::DropReason::kNone) continue;
      if (!wire::check_icrc(parsed)) continue;
      sides_[a.side].model.now = now_;
      sides_[a.side].receive(parsed, now_);
    }
  }

  void advance(bool more) {
    if (done()) return;
    const Time next = std::min(
        {link_.next_arrival(), sides_[0].requester.deadline(), sides_[1].requester.deadline()});
    require(more || next != kNever, "stuck", sides_[0].model.completed);
    now_ = more ? now_ + kStep : std::max(now_ + kStep, next);
    require(now_ < Time{} + std::chrono::hours(24), "no end");
  }

  const RcSettings s_;
  Random random_;
  Link link_;
  const Workload workloads_[2];
  Side sides_[2];
  Time now_{};
};

void choose_repeat(RcSettings& s, Random& random) {
  s.attributes.selective_repeat = random.chance(0.8);
  s.attributes.out_of_order =
      static_cast<std::uint16_t>(random.chance(0.5) ? 256 : random.below(40));
  for (RcSettings::Keeping& keeping : s.keeping) {
    keeping.places = random.chance(0.6) ? 256 : random.below(20);
    keeping.watermark = random.chance(0.6) ? keeping.places : random.below(100);
  }
}

}  // namespace

RcSettings random_rc_settings(Random& random) {
  constexpr double kRates[] = {0, 0, 0.001, 0.01, 0.05, 0.2};
  RcSettings s;
  s.faults.drop = kRates[random.below(6)];
  s.faults.duplicate = kRates[random.below(6)];
  s.faults.reorder = kRates[random.below(6)];
  s.faults.corrupt = kRates[random.below(5)];
  s.faults.delay = std::chrono::microseconds(random.between(1, 50));
  s.attributes.mtu = 256u << random.below(5);
  s.attributes.max_rd_atomic = static_cast<std::uint8_t>(random.between(1, 8));
  s.attributes.max_dest_rd_atomic =
      static_cast<std::uint8_t>(s.attributes.max_rd_atomic + random.below(3));
  s.attributes.timeout = static_cast<std::uint8_t>(random.between(7, 14));
  s.attributes.retry_count = 255;
  s.attributes.min_rnr_timer = static_cast<std::uint8_t>(random.below(16));
  s.attributes.psn_window =
      static_cast<std::uint16_t>(random.chance(0.5) ? 256 : random.between(1, 64));
  s.attributes.ack_interval = static_cast<std::uint16_t>(random.between(1, 40));
  s.limits.operations = random.between(1, 30);
  s.limits.mtu = s.attributes.mtu;
  s.limits.max_packets = random.between(2, 20);
  s.depth = random.between(1, 32);
  s.port_buffers = random.between(1, 64);
  s.receive_rate = random.chance(0.5) ? 1 : 0.05;
  s.counts_receives = random.chance(0.5);
  s.may_fail = random.chance(0.15);
  if (s.may_fail) {
    s.attributes.retry_count = static_cast<std::uint8_t>(random.below(8));
    s.attributes.rnr_retry = static_cast<std::uint8_t>(random.below(8));
    s.limits.poison = random.chance(0.7);
  }
  choose_repeat(s, random);
  if (random.chance(0.3)) s.over_rate = 0.01 * random.between(1, 30);
  return s;
}

RcOutcome run_rc(const RcSettings& settings, std::uint64_t seed, Counts& totals) {
  return World(settings, seed).run(totals);
}

}  // namespace softhca::sim
