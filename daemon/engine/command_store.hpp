// Per-command state kept beside the PCB: the credits it holds, the lists of its queue pair it
// stands in, and the release of both (mechanism B6).
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/collect/pcb_pool.hpp"
#include "daemon/engine/cpu_scheduler.hpp"
#include "daemon/engine/rate_control.hpp"
#include "daemon/engine/wait_samples.hpp"
#include "daemon/schedule/fetch_ahead.hpp"
#include "daemon/schedule/kick_arbitrator.hpp"
#include "daemon/schedule/overflow_threshold.hpp"
#include "daemon/schedule/send_queue_scheduler.hpp"

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

  /// The PCB holds a command of the queue pair from now on, which waits for credits, and is charged
  /// to its rates.
  void prepare(QueuePair& qp, PcbId pcb);
  /// Gives the execution credit back: the command waits for its peer alone now.
  void return_execution(PcbId pcb);
  /// Gives credits and PCB back.
  void release(PcbId pcb);
  /// The same; the command is still in its send queue, and its rates get back what it was charged
  /// for: the program may change it before it comes again, and pays for what it is then.
  void give_back(PcbId pcb) {
    rates_.take_back(owner(pcb), contexts_[pcb.value]);
    release(pcb);
  }
  /// The queue pair is going. REQUIRES: its commands are released.
  void forget(QueuePair& qp) {
    if (qp.sq.rates != nullptr) rates_.forget(qp.sq.rates->sent);
  }
  /// Releases all commands of a queue pair, including those in the hands of its transport.
  void release_all(QueuePair& qp);

  /// Since it was kicked. REQUIRES: as owner().
  Duration age(PcbId pcb) const { return clock_.now - contexts_[pcb.value].kicked_at; }

  /// Commands that are followed on their way, see there.
  WaitSamples& samples() { return samples_; }

  // --- lists of a queue pair
  /// The command has its credits.
  void remove_kicked(QueuePair& qp, PcbId pcb) { qp.sq.kicked.remove(contexts_.data(), pcb.value); }
  /// The first of those that wait for credits, which waits no more. REQUIRES: there is one.
  PcbId pop_kicked(QueuePair& qp) {
    const PcbId pcb(qp.sq.kicked.pop_front(contexts_.data()));
    const TvlId tvl = arbitrator_.tvl_of(pcb);
    arbitrator_.remove(pcb);
    left_kick_list(pcb, tvl);
    return pcb;
  }
  /// The command is not to start yet.
  void hold(QueuePair& qp, PcbId pcb) { qp.sq.held.push_back(contexts_.data(), pcb.value); }
  void hold_first(QueuePair& qp, PcbId pcb) { qp.sq.held.push_front(contexts_.data(), pcb.value); }
  /// REQUIRES: one is held.
  PcbId pop_held(QueuePair& qp) { return PcbId(qp.sq.held.pop_front(contexts_.data())); }

  // --- dedicated PCBs, by the class that has its turns for them
  /// The class number is given to another class now, which holds none.
  void reset(QosClassId qos_class) {
    DedicatedPcbs& row = dedicated_[qos_class.value];
    if (row.jammed.linked()) jammed_.remove(dedicated_.data(), qos_class.value);
    row = {};
  }
  std::uint32_t free_dedicated(QosClassId qos_class) const {
    return dedicated_[qos_class.value].watch.free(pcbs_.dedicated_limit(qos_class));
  }
  /// For classes whose dedicated PCBs all wait: others may have given back ordinary ones, or taken
  /// the last. To be called in each poll step.
  void watch_jammed() {
    for (std::uint32_t i = jammed_.front(), after; i != kNoIndex; i = after) {
      after = jammed_.next(dedicated_.data(), i);
      watch(QosClassId(static_cast<std::uint16_t>(i)));
    }
  }
  /// The command that the PCB was prepared for was fetched by a doorbell, and waits in the kick
  /// list of the TVL.
  void fetched(QueuePair& qp, PcbId pcb, TvlId tvl) {
    contexts_[pcb.value].by_doorbell = true;
    ahead_.came(tvl);
    if (is_dedicated(pcb)) took_dedicated(qp);
  }
  /// No PCB was available for the class, ordinary or dedicated. Its part of the dedicated ones may
  /// be with others that had a larger one before it came: then any that is released gives it
  /// another turn.
  void found_none(QosClassId qos_class) { short_ |= free_dedicated(qos_class) != 0; }
  /// Amounts have changed: all classes that found none look again.
  void look_again();
  /// A PCB of the class came back: it looks again, and so does its tenant's, which counts what
  /// levels have drawn from it.
  void look_again(const Tenant& tenant, QosClassId qos_class) {
    scheduler_.unblock_class(qos_class);
    scheduler_.unblock_class(tenant.qos_class);
  }
  /// The same for one that a VCB of the session had.
  void look_again(const Session& session) { look_again(*session.tenant, session.qos_class); }
  /// Gives back a PCB of one of the tenant's classes that is bound to no VCB.
  void free(PcbId pcb, const Tenant& tenant) {
    const QosClassId qos_class = pcbs_.state(pcb).group;
    pcbs_.free(pcb);
    look_again(tenant, qos_class);
  }

  // --- commands fetched by doorbells that wait in a kick list
  const schedule::FetchAhead& ahead() const { return ahead_; }
  /// The queue pair has no turns until there is room in the list.
  void wait_for_room(QueuePair& qp, TvlId tvl);
  /// The queue pair has its turn: whatever it waits for next, it is not this.
  void end_wait(const QueuePair& qp) { ahead_.forget(schedule::QpSlot(qp.slot)); }
  /// Are more commands of the class to be fetched, now or when there is room for them?
  bool has_more(QosClassId qos_class) const {
    return scheduler_.has_work(qos_class) || ahead_.any_waits(qos_class);
  }
  /// Gives turns to queue pairs that waited for lists with room.
  void end_waits();
  /// The command has left the list.
  void left_kick_list(PcbId pcb, TvlId tvl) {
    if (contexts_[pcb.value].by_doorbell) ahead_.left(tvl);
  }
  /// It has left the list for another, which it is in.
  void moved(PcbId pcb, TvlId from) {
    if (!contexts_[pcb.value].by_doorbell) return;
    ahead_.left(from);
    ahead_.came(arbitrator_.tvl_of(pcb));
  }

 private:
  /// The dedicated PCBs of a class.
  struct DedicatedPcbs {
    schedule::DedicatedWatch watch;
    IndexLink jammed;  ///< all of them wait
  };

  void took_dedicated(QueuePair& qp);
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
  bool short_ = false;  ///< a class found none, although it does not have its part
};

}  // namespace softhca::engine
