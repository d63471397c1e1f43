// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/unreliable_world.hpp"

#include <algorithm>

#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/transport/uc.hpp"
#include "daemon/roce/transport/ud.hpp"

namespace softhca::sim {
namespace {

constexpr Duration kStep = std::chrono::microseconds(1);
constexpr std::uint32_t kQkey = 0x11111111;

class World {
 public:
  World(const UnreliableSettings& settings, std::uint64_t seed)
      : s_(settings),
        random_(seed),
        link_(settings.faults, random_),
        workload_(make_workload(settings.limits, Rkey(0x1001), random_)),
        sender_(0, link_, random_, workload_, nothing_),
        receiver_(1, link_, random_, nothing_, workload_) {
    sender_.peer = &receiver_;
    sender_.may_drop = receiver_.may_drop = true;
    receiver_.datagrams = s_.datagrams;
    receiver_.over_rate = s_.over_rate;
    // Sometimes too short for some of the messages: those are dropped.
    receiver_.receive_capacity = workload_.longest_send + transport::kRoutingHeaderBytes;
    if (random_.chance(0.2)) receiver_.receive_capacity /= 2;
    const Psn psn(static_cast<std::uint32_t>(0u - random_.below(50)));
    uc_out_.open(requests_, 8);
    uc_out_.configure({.mtu = s_.mtu});
    uc_out_.reset(psn);
    uc_in_.configure({.mtu = s_.mtu});
    uc_in_.reset(psn);
    ud_out_.configure({.mtu = s_.mtu, .self = Qpn(5), .qkey = kQkey});
    ud_out_.reset(psn);
    ud_in_.configure({.mtu = s_.mtu, .self = Qpn(6), .qkey = kQkey});
    ud_in_.reset();
  }

  void run(Counts& totals) {
    while (!sender_.all_completed() || link_.next_arrival() != kNever) {
      deliver();
      sender_.now = now_;
      sender_.port_buffers = random_.between(1, 16);
      if (random_.chance(s_.receive_rate)) receiver_.post_receives(random_.between(1, 4));
      s_.datagrams ? send_datagrams() : send_messages();
      now_ = sender_.all_completed() && link_.next_arrival() != kNever
                 ? std::max(now_ + kStep, link_.next_arrival())
                 : now_ + kStep;
    }
    check_end();
    sender_.add_counts(totals);
    receiver_.add_counts(totals);
  }

 private:
  void send_messages() {
    while (started_ < workload_.operations.size() && !uc_out_.full())
      uc_out_.start(workload_.operations[started_++].request);
    uc_out_.transmit(sender_, random_.between(1, 32));
  }

  void send_datagrams() {
    while (started_ < workload_.operations.size()) {
      const transport::Request& r = workload_.operations[started_].request;
      if (ud_out_.transmit(sender_, r, Qpn(6), kQkey) == Verdict::kBusy) return;
      ++started_;
    }
  }

  void deliver() {
    while (link_.next_arrival() <= now_) {
      const Arrival a = link_.take();
      wire::ParsedFrame parsed;
      if (wire::parse_frame(a.frame, parsed) != wire::DropReason::kNone) continue;
      if (!wire::check_icrc(parsed)) continue;
      if (s_.datagrams)
        ud_in_.receive(receiver_, parsed.headers, parsed.payload);
      else
        uc_in_.receive(receiver_, parsed.headers, parsed.payload);
    }
  }

  /// On a perfect link with receives in plenty nothing may be missing.
  void check_end() {
    require(sender_.succeeded == workload_.operations.size(), "not all sent");
    const Faults& f = s_.faults;
    const bool dropped = receiver_.counted(transport::Count::kReceiveDropped) > 0 ||
                         receiver_.counted(transport::Count::kRateDropped) > 0 ||
                         receiver_.counted(transport::Count::kBadLength) > 0;
    if (f.drop + f.duplicate + f.reorder + f.corrupt > 0 || dropped) return;
    std::uint32_t drawing = 0;
    for (const Operation& op : workload_.operations)
      drawing += transport::draws_receive(op.request.kind);
    require(receiver_.received == drawing, "messages missing on a perfect link",
            receiver_.received);
    if (!s_.datagrams) receiver_.check_memory();
  }

  const UnreliableSettings s_;
  Random random_;
  Link link_;
  const Workload workload_;
  const Workload nothing_{{}, kSliceStart, 0};
  Model sender_;
  Model receiver_;
  transport::RequestTable requests_ = transport::RequestTable(workload_.operations.size());
  transport::UcRequester uc_out_;
  transport::UcResponder uc_in_;
  transport::UdRequester ud_out_;
  transport::UdResponder ud_in_;
  std::uint32_t started_ = 0;
  Time now_{};
};

}  // namespace

UnreliableSettings random_unreliable_settings(Random& random) {
  constexpr double kRates[] = {0, 0, 0, 0.01, 0.05, 0.2};
  UnreliableSettings s;
  s.faults.drop = kRates[random.below(6)];
  s.faults.duplicate = kRates[random.below(6)];
  s.faults.reorder = kRates[random.below(6)];
  s.faults.corrupt = kRates[random.below(5)];
  s.mtu = 256u << random.below(5);
  s.datagrams = random.chance(0.5);
  s.limits.operations = random.between(1, 40);
  s.limits.mtu = s.mtu;
  s.limits.max_packets = s.datagrams ? 1 : random.between(2, 12);
  s.limits.kinds = s.datagrams ? Kinds::kDatagram : Kinds::kUnreliable;
  s.receive_rate = random.chance(0.7) ? 1 : 0.1;
  if (random.chance(0.2)) s.over_rate = 0.1;
  return s;
}

void run_unreliable(const UnreliableSettings& settings, std::uint64_t seed, Counts& totals) {
  World(settings, seed).run(totals);
}

}  // namespace softhca::sim
