// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/command_intake.hpp"

#include <algorithm>
#include <bit>

#include "daemon/base/probes.hpp"
#include "daemon/engine/receive/failed_sessions.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

// Polling up to this many sessions costs less than one clock read, so it is not timed.
constexpr std::size_t kFewLooks = 8;

}  // namespace

CommandIntake::CommandIntake(const CommandCore& core, RateControl& rates, AsyncEvents& async_events,
                             EventLog& event_log, std::uint32_t vcbs, std::uint16_t tenants)
    : clock_(core.clock),
      queue_pairs_(core.queue_pairs),
      cpu_(core.cpu),
      commands_(core.commands),
      pcbs_(core.pcbs),
      scheduler_(core.scheduler),
      arbitrator_(core.arbitrator),
      rates_(rates),
      async_events_(async_events),
      event_log_(event_log),
      functions_(vcbs),
      collector_(core.pcbs, functions_) {
  poller_.reserve(tenants, static_cast<std::uint16_t>(scheduler_.max_classes()));
}

void CommandIntake::add(Session& session) {
  session.last_active = clock_.now;
  poller_.add(session);
  sessions_.push_back(&session);
  if (cpu_number_) session.view.set_engine_cpu(*cpu_number_);
}

void CommandIntake::note_cpu(unsigned cpu) {
  if (cpu_number_ == cpu) return;
  cpu_number_ = cpu;
  for (Session* session : sessions_) session->view.set_engine_cpu(cpu);
}

void CommandIntake::remove(Session& session) {
  if (session.parked) --parked_;
  poller_.remove(session);
  collector_.abandon(session.first_vcb, session.view.vcbs());
  commands_.look_again(session);
  std::erase(sessions_, &session);
}

bool CommandIntake::park(Session& session) {
  if (session.parked) return true;
  if (!session.failed && !lets_park(session)) return false;
  session.parked = true;
  poller_.rest(session);
  ++parked_;
  return true;
}

/// Parks the session: from now on its process signals that it has posted something. False: it has
/// just posted something.
bool CommandIntake::lets_park(Session& session) {
  const std::uint64_t unfinished = session.poll.unfinished.resting();
  if (!session.view.park(unfinished)) return false;
  for (std::uint64_t left = unfinished; left != 0; left &= left - 1) {
    if (!has_news(session, static_cast<std::uint32_t>(std::countr_zero(left)))) continue;
    session.view.unpark();
    session.poll.unfinished.look_again();
    return false;
  }
  return true;
}

void CommandIntake::unpark(Session& session, std::uint64_t seen) {
  if (!session.parked || session.failed) return;
  session.view.unpark();
  session.parked = false;
  session.poll.last_scan = seen;
  session.poll.waiting = false;
  session.poll.unfinished.look_again();  // the process may have finished one
  poller_.wake(session);
  --parked_;
}

/// Queues the session if it has something that may be taken in now. True if it has.
bool CommandIntake::has_commands(Session& session) {
  PollState& state = session.poll;
  if (!session.is_collected()) return false;
  if (state.unfinished.any()) state.unfinished.begin(session.view.pending(), clock_.now);
  if (!state.waiting) {
    state.previous_scan = state.last_scan;
    state.last_scan = cpu_.spent();
  }
  state.waiting = session.view.has_work(state.unfinished.not_now());
  if (!state.waiting || !cpu_.may_take_in(session.qos_class)) return false;
  poller_.push(session);
  return true;
}

std::size_t CommandIntake::collect() {
  poller_.look([this](Session& session) { has_commands(session); });
  if (poller_.empty()) return 0;
  if (sessions_.size() > kFewLooks) cpu_.end_any_work();
  const std::uint64_t end = cpu_.done() + cpu_.budget().intake;
  std::size_t work = 0;
  while (cpu_.done() < end) {
    Session* session = poller_.pop();
    if (session == nullptr) break;
    if (!cpu_.may_take_in(session->qos_class)) {  // it was pushed in an earlier step
      poller_.served(*session, 0, false);
      continue;
    }
    cpu_.begin_work(session->qos_class);
    clock_.work_on(subject_of(*session));
    const std::uint64_t begin = cpu_.done(), time = cpu_.spent();
    const bool others = cpu_.note_competition(session->qos_class, poller_.order(),
                                              commands_.has_more(session->qos_class));
    work += collect(*session, others ? std::min(end, begin + cpu_.budget().turn) : end);
    if (others) cpu_.end_work();
    const PollState& state = session->poll;
    poller_.served(*session, cpu_.spent() - time, state.waiting && session->is_collected());
  }
  return work;
}

/// Takes in from the session until the engine's work is `end`, and a little more. VCBs get three
/// quarters of that if a doorbell was rung, so that neither holds up the other. Returns the number
/// of commands and doorbells.
std::size_t CommandIntake::collect(Session& session, std::uint64_t end) {
  if (!session.is_collected()) return 0;
  PollState& state = session.poll;
  std::size_t taken =
      collect_vcbs(session, session.view.rung() ? cpu_.done() + (end - cpu_.done()) / 4 * 3 : end);
  if (state.unfinished.any()) state.unfinished.end(clock_.now);
  taken += collect_doorbells(session, end);
  if (taken != 0) session.last_active = clock_.now;
  state.waiting = session.view.has_work(state.unfinished.not_now());
  return taken;
}

/// Takes VCBs in rotation, since the last would otherwise wait forever behind the first.
std::size_t CommandIntake::collect_vcbs(Session& session, std::uint64_t end) {
  PollState& state = session.poll;
  const std::uint32_t first = state.next_vcb;
  std::uint64_t pending =
      std::rotr(session.view.pending() & ~state.unfinished.not_now(), static_cast<int>(first));
  std::size_t taken = 0;
  for (; pending != 0 && cpu_.done() < end && !session.held_by_rate(); pending &= pending - 1) {
    const auto vcb =
        (first + static_cast<std::uint32_t>(std::countr_zero(pending))) % abi::kMaxVcbsPerSession;
    state.next_vcb = (vcb + 1) % abi::kMaxVcbsPerSession;
    if (collect_vcb(session, vcb)) {
      ++taken;
      if (state.unfinished.any()) state.unfinished.whole(vcb);
    } else {
      cpu_.charge(session, kDoorbellCost);
      state.unfinished.not_whole(vcb);
    }
  }
  return taken;
}

/// Takes a command from a VCB. False: the command is not whole yet.
bool CommandIntake::collect_vcb(Session& session, std::uint32_t vcb) {
  const std::uint64_t scoreboard = session.view.scoreboard(vcb);
  const VcbId id(session.first_vcb.value + vcb);
  if ((scoreboard & abi::kWithdrawn) != 0) return withdraw(session, vcb);
  const auto pcb = collector_.begin(id);
  if (!pcb) {
    if (!send_queue_mode(session, vcb, scoreboard)) return false;
    release(session, vcb, scoreboard);
    return true;
  }

  collect::Pcb& buffer = pcbs_.pcb(*pcb);
  const bool whole = (scoreboard & abi::kAllSegments) == abi::kAllSegments;
  Verdict copied = Verdict::kOk;
  collect::Progress progress = collect::Progress::kKick;
  if (whole) {
    copied = session.view.copy_command(vcb, buffer.header, buffer.payload.data());
  } else {
    const std::uint64_t known = pcbs_.state(*pcb).scoreboard.bits();
    session.view.copy_segments(vcb, scoreboard & ~known, buffer.header, buffer.payload.data());
    progress = collector_.add(*pcb, scoreboard);
    if (progress == collect::Progress::kCollecting) return false;
    if (known != 0) session.tenant->counters.collect.in_pieces.add();
    copied = shm::check_payload(buffer.header, abi::kCommandPayloadBytes);
  }
  // The process may reuse the VCB only when its command is recorded for the next engine.
  if (copied != Verdict::kOk || progress == collect::Progress::kBadLength) {
    refuse(session);
    collector_.discard(*pcb);
    commands_.look_again(session);
  } else {
    collector_.unbind(*pcb);
    accept(session, *pcb);
  }
  release(session, vcb, scoreboard);
  return true;
}

/// Gives the VCB back to the process. `scoreboard`: as last seen.
void CommandIntake::release(Session& session, std::uint32_t vcb, std::uint64_t scoreboard) {
  const Kick kick = (scoreboard & abi::kExplicitKick) != 0  ? Kick::kExplicit
                    : (scoreboard & abi::kVirtualKick) != 0 ? Kick::kVirtual
                                                            : Kick::kWhole;
  session.tenant->counters.collect.kicked(kick).add();
  session.view.release(std::uint64_t{1} << vcb);
}

/// Discards a half-written command that the process withdrew, and gives its VCB back.
bool CommandIntake::withdraw(Session& session, std::uint32_t vcb) {
  const PcbId pcb = functions_[VcbId(session.first_vcb.value + vcb)].pcb;
  if (pcb != collect::kNoPcb) {
    collector_.discard(pcb);
    commands_.look_again(session);
  }
  cpu_.charge(session, kDoorbellCost);
  session.tenant->counters.collect.withdrawn.add();
  session.view.release(std::uint64_t{1} << vcb);
  return true;
}

/// True if an unfinished VCB has changed such that the engine should poll it.
bool CommandIntake::has_news(const Session& session, std::uint32_t vcb) const {
  const std::uint64_t scoreboard = session.view.scoreboard(vcb);
  const PcbId pcb = functions_[VcbId(session.first_vcb.value + vcb)].pcb;
  if ((scoreboard & (abi::kExplicitKick | abi::kWithdrawn)) != 0) return true;
  if (pcb == collect::kNoPcb)
    return (scoreboard & collect::kDoorbellSegments) == collect::kDoorbellSegments;
  return (scoreboard & abi::kAllSegments & ~pcbs_.state(pcb).scoreboard.bits()) != 0;
}

QueuePair* CommandIntake::find_owned(const Session& session, std::uint32_t qpn) const {
  QueuePair* qp = queue_pairs_.find(Qpn(qpn));
  return qp != nullptr && qp->session == &session ? qp : nullptr;
}

std::size_t CommandIntake::collect_doorbells(Session& session, std::uint64_t end) {
  std::size_t taken = 0;
  abi::Doorbell doorbell;
  while (taken == 0 || cpu_.done() < end) {
    const shm::Take take = session.view.next_doorbell(doorbell);
    if (take == shm::Take::kEmpty) break;
    if (take == shm::Take::kHostile) {
      fail_session(session);
      break;
    }
    const DoorbellCause cause = abi::cause_of(doorbell);
    session.tenant->counters.doorbells[static_cast<std::size_t>(cause)].add();
    if (cause == DoorbellCause::kNoVcb) session.vcbs_missed.add();
    if (QueuePair* qp = ring(session, Qpn(abi::qpn_of(doorbell)), doorbell.sequence))
      qp->sq.waits.no_vcb = cause == DoorbellCause::kNoVcb;
    session.view.take_doorbell();
    ++taken;
  }
  return taken;
}

std::size_t CommandIntake::relieve_doorbells() {
  scheduler_.sample(clock_.now);
  commands_.watch_jammed();
  const std::uint64_t end = cpu_.done() + cpu_.budget().turn;
  std::size_t work = 0;
  for (; cpu_.done() < end; ++work) {
    const schedule::Relief relief = scheduler_.relieve();
    if (relief.kind == schedule::Relief::Kind::kNone) break;
    QueuePair& qp = queue_pairs_[relief.slot.value];
    clock_.work_on(subject_of(qp));
    cpu_.charge(qp, kReliefCost);
    if (relief.kind == schedule::Relief::Kind::kLost) doorbell_fails(qp);
  }
  cpu_.end_work();
  return work;
}

/// Counts a VCB or doorbell of the session that names no command.
void CommandIntake::refuse(const Session& session) {
  cpu_.charge(session, kDoorbellCost);
  session.tenant->counters.refused.malformed_commands.add();
}

/// Drops a VCB or doorbell for a queue pair that the session does not have or that does not send.
/// The process is not at fault if the queue pair was reset or destroyed before the engine took this
/// in.
void CommandIntake::drop(const Session& session, Qpn qpn, std::uint32_t sequence_end) {
  const QueuePair* qp = find_owned(session, qpn.value);
  const bool stale = qp != nullptr ? ring_distance(sequence_end, qp->sq.first_sequence) <= 0
                                   : queue_pairs_.had(session, qpn);
  if (!stale) return refuse(session);
  cpu_.charge(session, kDoorbellCost);
}

/// Returns null if the session has no such queue pair that sends.
QueuePair* CommandIntake::ring(Session& session, Qpn qpn, std::uint32_t sequence_end) {
  QueuePair* qp = find_owned(session, qpn.value);
  if (qp == nullptr || !scheduler_.is_open(schedule::QpSlot(qp->slot))) {
    drop(session, qpn, sequence_end);
    return nullptr;
  }
  cpu_.charge(session, kDoorbellCost);
  const schedule::QpSlot slot(qp->slot);
  const std::uint32_t known = scheduler_.next_sequence(slot) + scheduler_.pending(slot);
  const auto verdict = scheduler_.ring(slot, sequence_end);
  if (ring_distance(sequence_end, qp->record.durable->posted_end) > 0 &&
      verdict != schedule::RingVerdict::kHostile)
    qp->record.durable->posted_end = sequence_end;
  if (verdict == schedule::RingVerdict::kAccepted) {
    commands_.samples().posted(*qp, known, sequence_end);
    probes::command_announced(qpn.value, known, sequence_end);
  }
  if (verdict == schedule::RingVerdict::kHostile) doorbell_fails(*qp);
  return qp;
}

void CommandIntake::announce(QueuePair& qp, std::uint32_t sequence_end) {
  const schedule::QpSlot slot(qp.slot);
  if (!scheduler_.is_open(slot)) return;
  const std::uint32_t known = scheduler_.next_sequence(slot) + scheduler_.pending(slot);
  if (ring_distance(sequence_end, known) > 0) ring(*qp.session, qp.qpn, sequence_end);
}

/// Fails the queue pair: a doorbell, rung or read back from the overflow buffer, says what cannot
/// be true.
void CommandIntake::doorbell_fails(QueuePair& qp) {
  qp.tenant->counters.refused.hostile_memory.add();
  if (qp.error.pending) return;
  async_events_.raise(qp, EventType::kQpFatal);
  event_log_.add(event_of(DaemonEventKind::kHostileMemory, *qp.session, qp.qpn, "doorbell"));
  cpu_.fail_later(qp, QpFailure::kDoorbell);
}

/// Fails the session, since its memory contradicts itself. The engine reads nothing more from it,
/// and its queue pairs fail. Other sessions go on.
void CommandIntake::fail_session(Session& session) {
  session.failed = true;
  poller_.rest(session);
  session.tenant->counters.refused.hostile_memory.add();
  event_log_.add(event_of(DaemonEventKind::kHostileMemory, session, Qpn(), "session memory"));
  look_through(cpu_, session);
}

bool CommandIntake::commands_wait(QosClassId served) {
  bool found = false;
  poller_.look([&](Session& session) { found |= has_commands(session); }, served);
  return found || scheduler_.has_work_of([&](QosClassId qos_class) {
    return qos_class != served && cpu_.may_take_in(qos_class);
  });
}

/// True if PCBs that are bound to the session's VCBs are borrowed, and their owners may want them
/// back.
bool CommandIntake::borrows(const Session& session) const {
  const collect::CollectGroup& group = pcbs_.group(session.qos_class);
  const bool beyond_own = group.pcbs.shared_in_use() != 0;
  if (!beyond_own || group.parent == kNoQosClass) return beyond_own;
  return pcbs_.group(group.parent).pcbs.shared_in_use() != 0;
}

void CommandIntake::give_back_borrowed() {
  for (const Session* session : sessions_)
    for (std::uint32_t vcb = 0; vcb < session->view.vcbs() && borrows(*session); ++vcb) {
      const PcbId pcb = functions_[VcbId(session->first_vcb.value + vcb)].pcb;
      if (pcb == collect::kNoPcb) continue;
      collector_.discard(pcb);
      commands_.look_again(*session);
    }
}

}  // namespace softhca::engine
