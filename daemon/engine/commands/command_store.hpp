// SPDX-License-Identifier: Apache-2.0

// State of commands beside their PCBs: the credits that a command holds, the lists of its queue
// pair that it is in, and the release of both (mechanism B6).
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/probes.hpp"
#include "daemon/engine/commands/rate_control.hpp"
#include "daemon/engine/commands/wait_samples.hpp"
#include "daemon/engine/records/costs.hpp"
#include "daemon/engine/turns/cpu_scheduler.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/fetch_ahead.hpp"
#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/overflow_threshold.hpp"
#include "daemon/qos/schedule/send_queue_scheduler.hpp"

namespace softhca::engine {

class CommandStore {
 public:
  CommandStore(const StepClock& clock, QpTable& queue_pairs, CpuScheduler& cpu,
               collect::PcbPool& pcbs, schedule::SendQueueScheduler& scheduler,
               schedule::KickArbitrator& arbitrator, RateControl& rates)
      : clock_(clock),
        queue_pairs_(queue_pairs),
        cpu_(cpu),
        pcbs_(pcbs),
        scheduler_(scheduler),
        arbitrator_(arbitrator),
        rates_(rates),
        samples_(clock, scheduler.max_classes()),
        contexts_(pcbs.size()),
        ahead_(arbitrator.tvl_count(), queue_pairs.slots(), scheduler.max_classes()),
        dedicated_(scheduler.max_classes()) {}

  CommandContext& operator[](PcbId pcb) { return contexts_[pcb.value]; }
  const CommandContext& operator[](PcbId pcb) const { return contexts_[pcb.value]; }
  /// REQUIRES: the PCB holds a command.
  QueuePair& owner(PcbId pcb) const { return queue_pairs_[contexts_[pcb.value].slot]; }
  bool is_dedicated(PcbId pcb) const { return pcbs_.state(pcb).use == collect::PcbUse::kDedicated; }

  /// Sets up the PCB of a command of the queue pair. The command waits for credits from now on, and
  /// is charged to its rates.
  void prepare(QueuePair& qp, PcbId pcb) {
    CommandContext& command = contexts_[pcb.value];
    command = CommandContext{};
    command.slot = qp.slot;
    command.kicked_at = clock_.now;
    command.time_when_seen = qp.session->poll.previous_scan;
    cpu_.charge(qp, kCommandCost);
    qp.sq.kicked.push_back(contexts_.data(), pcb.value);
    if (qp.sq.commands++ == 0) cpu_.minimums().began(qp.qos_class);
    const std::uint32_t sequence = pcbs_.pcb(pcb).header.sequence;
    if (abi::is_sampled(sequence)) samples_.kicked(qp, sequence);
    probes::command_kicked(qp.qpn.value, sequence);
    rates_.admit(qp, pcbs_.pcb(pcb), command);
  }
  /// Gives the execution credit back: the command waits only for its peer now.
  void return_execution(PcbId pcb);
  /// Gives the credits and the PCB back.
  void release(PcbId pcb);
  /// Does the same for a command that is still in its send queue, and refunds its rates. The
  /// program may change the command before it is fetched again, and then pays for the changed one.
  void give_back(PcbId pcb) {
    rates_.take_back(owner(pcb), contexts_[pcb.value]);
    release(pcb);
  }
  /// To be called before the queue pair is removed. REQUIRES: its commands are released.
  void forget(QueuePair& qp) {
    if (qp.sq.rates != nullptr) rates_.forget(qp.sq.rates->sent);
  }
  /// Releases all commands of a queue pair, including those that its transport has.
  void release_all(QueuePair& qp);

  /// Returns the time since the command was kicked. REQUIRES: as owner().
  Duration age(PcbId pcb) const { return clock_.now - contexts_[pcb.value].kicked_at; }

  /// Commands that are followed on their way (wait_samples.hpp).
  WaitSamples& samples() { return samples_; }

  // --- lists of a queue pair
  /// Removes a command that has got its credits from the list of those that wait for them.
  void remove_kicked(QueuePair& qp, PcbId pcb) { qp.sq.kicked.remove(contexts_.data(), pcb.value); }
  /// Takes out the first command that waits for credits. REQUIRES: there is one.
  PcbId pop_kicked(QueuePair& qp) {
    const PcbId pcb(qp.sq.kicked.pop_front(contexts_.data()));
    const TvlId tvl = arbitrator_.tvl_of(pcb);
    arbitrator_.remove(pcb);
    left_kick_list(pcb, tvl);
    return pcb;
  }
  /// Holds back a command that must not start yet.
  void hold(QueuePair& qp, PcbId pcb) { qp.sq.held.push_back(contexts_.data(), pcb.value); }
  void hold_first(QueuePair& qp, PcbId pcb) { qp.sq.held.push_front(contexts_.data(), pcb.value); }
  /// Takes out the first command that is held. REQUIRES: there is one.
  PcbId pop_held(QueuePair& qp) { return PcbId(qp.sq.held.pop_front(contexts_.data())); }

  // --- dedicated PCBs, by class
  /// To be called when the class number goes to another class, which holds no dedicated PCB.
  void reset(QosClassId qos_class) {
    DedicatedPcbs& row = dedicated_[qos_class.value];
    if (row.jammed.linked()) jammed_.remove(dedicated_.data(), qos_class.value);
    row = {};
  }
  std::uint32_t free_dedicated(QosClassId qos_class) const {
    return dedicated_[qos_class.value].watch.free(pcbs_.dedicated_limit(qos_class));
  }
  /// Checks the classes with only waiting dedicated PCBs again: other classes may have returned
  /// ordinary PCBs, or taken the last one. To be called in each poll step.
  void watch_jammed() {
    for (std::uint32_t i = jammed_.front(), after; i != kNoIndex; i = after) {
      after = jammed_.next(dedicated_.data(), i);
      watch(QosClassId(static_cast<std::uint16_t>(i)));
    }
  }
  /// To be called when a doorbell has fetched the command that the PCB was prepared for. The
  /// command waits in the kick list of the TVL.
  void fetched(QueuePair& qp, PcbId pcb, TvlId tvl) {
    contexts_[pcb.value].by_doorbell = true;
    ahead_.came(tvl);
    if (is_dedicated(pcb)) took_dedicated(qp);
  }
  /// To be called when a class found no PCB, ordinary or dedicated. Other classes may still hold a
  /// part of its dedicated PCBs, if their own part was larger before this class came. In that case
  /// any dedicated PCB that is released gives the class another turn.
  void found_none(QosClassId qos_class) { short_ |= free_dedicated(qos_class) != 0; }
  /// Gives all classes another turn, since amounts have changed.
  void look_again();
  /// Gives another turn to a class that a PCB was returned to. The class of its tenant gets one
  /// too, since it counts what levels have drawn from it.
  void look_again(const Tenant& tenant, QosClassId qos_class) {
    scheduler_.unblock_class(qos_class);
    scheduler_.unblock_class(tenant.qos_class);
  }
  /// Does the same for a PCB that was bound to a VCB of the session.
  void look_again(const Session& session) { look_again(*session.tenant, session.qos_class); }
  /// Frees a PCB of one of the tenant's classes that is bound to no VCB.
  void free(PcbId pcb, const Tenant& tenant) {
    const QosClassId qos_class = pcbs_.state(pcb).group;
    pcbs_.free(pcb);
    look_again(tenant, qos_class);
  }

  // --- commands fetched by doorbells that wait in a kick list
  const schedule::FetchAhead& ahead() const { return ahead_; }
  /// Gives the queue pair no turns until the kick list has room.
  void wait_for_room(QueuePair& qp, TvlId tvl);
  /// To be called when the queue pair has its turn: it does not wait for a kick list any more.
  void end_wait(const QueuePair& qp) { ahead_.forget(schedule::QpSlot(qp.slot)); }
  /// True if more commands of the class are to be fetched, now or when there is room for them.
  bool has_more(QosClassId qos_class) const {
    return scheduler_.has_work(qos_class) || ahead_.any_waits(qos_class);
  }
  /// Gives turns to queue pairs that waited for kick lists which have room now.
  void end_waits();
  /// To be called when the command has left the kick list.
  void left_kick_list(PcbId pcb, TvlId tvl) {
    if (contexts_[pcb.value].by_doorbell) ahead_.left(tvl);
  }
  /// To be called when the command was moved from the kick list of `from` to another one.
  void moved(PcbId pcb, TvlId from) {
    if (!contexts_[pcb.value].by_doorbell) return;
    ahead_.left(from);
    ahead_.came(arbitrator_.tvl_of(pcb));
  }

 private:
  /// The dedicated PCBs of a class.
  struct DedicatedPcbs {
    schedule::DedicatedWatch watch;
    IndexLink jammed;  ///< all of its dedicated PCBs wait
  };

  void took_dedicated(QueuePair& qp);
  void released_dedicated(QueuePair& qp, bool waited, Duration held);
  void watch(QosClassId qos_class);

  const StepClock& clock_;
  QpTable& queue_pairs_;
  CpuScheduler& cpu_;
  collect::PcbPool& pcbs_;
  schedule::SendQueueScheduler& scheduler_;
  schedule::KickArbitrator& arbitrator_;
  RateControl& rates_;
  WaitSamples samples_;
  std::vector<CommandContext> contexts_;  ///< by PCB
  schedule::FetchAhead ahead_;
  std::vector<DedicatedPcbs> dedicated_;  ///< by class
  IndexList<DedicatedPcbs, &DedicatedPcbs::jammed> jammed_;
  bool short_ = false;  ///< a class found no PCB although it has less than its part
};

}  // namespace softhca::engine
