// From the session memory of processes to complete commands in PCBs (mechanisms A4, A5, B1, C).
#include <algorithm>
#include <bit>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

// A VCB that was handed over half written is looked at again after so long, then ever later. A
// process that finishes one while it is parked says so, as after any post.
constexpr Duration kFirstLookAgain = std::chrono::microseconds(1);
constexpr Duration kLastLookAgain = std::chrono::milliseconds(1);

}  // namespace

/// A look at all queue pairs.
void Engine::charge_sweep(const Session& session) {
  cpu_.charge(session, queue_pairs_.slots() * kSweepCost);
}

/// True when something is there to be taken in.
bool Engine::look_for_commands(Session& session) {
  IntakeState& state = session.intake;
  if (!session.is_collected()) return false;
  if (state.unfinished != 0) {
    state.unfinished &= session.view.pending();
    if (clock_.now >= state.unfinished_due) state.unfinished = 0;
  }
  if (!state.waiting) {
    state.looked_before = state.looked;
    state.looked = cpu_.done();
  }
  state.waiting = session.view.has_work(state.unfinished);
  if (!state.waiting || !cpu_.may_take_in(session.party)) return false;
  intake_.push(session);
  return true;
}

/// However much there is, a step takes in a portion.
std::size_t Engine::collect_commands() {
  intake_.look([this](Session& session) { look_for_commands(session); });
  const std::uint64_t end = cpu_.done() + cpu_.budget().intake;
  std::size_t work = 0;
  while (cpu_.done() < end) {
    Session* session = intake_.pop();
    if (session == nullptr) break;
    if (!cpu_.may_take_in(session->party)) {  // it was pushed in an earlier step
      intake_.served(*session, 0, false);
      continue;
    }
    const std::uint64_t begin = cpu_.done();
    const bool others =
        cpu_.note_competition(session->party, intake_.order(), scheduler_.has_work(session->party));
    work += collect(*session, others ? std::min(end, begin + cpu_.budget().turn) : end);
    const IntakeState& state = session->intake;
    intake_.served(*session, cpu_.done() - begin, state.waiting && session->is_collected());
  }
  return work;
}

/// Takes in until the engine's work is `end`, and a little more, so that neither VCBs nor doorbells
/// hold the others up. How many there were.
std::size_t Engine::collect(Session& session, std::uint64_t end) {
  if (!session.is_collected()) return 0;
  IntakeState& state = session.intake;
  const std::uint64_t vcbs_end =
      session.view.rung() ? cpu_.done() + (end - cpu_.done()) / 4 * 3 : end;
  // In rotation, or the last VCBs would wait for ever behind the first.
  std::uint64_t pending =
      std::rotr(session.view.pending() & ~state.unfinished, static_cast<int>(state.next_vcb));
  const std::uint32_t first = state.next_vcb;
  const std::uint64_t unfinished = state.unfinished;
  std::size_t taken = 0;
  for (; pending != 0 && cpu_.done() < vcbs_end; pending &= pending - 1) {
    const auto vcb =
        (first + static_cast<std::uint32_t>(std::countr_zero(pending))) % abi::kMaxVcbsPerSession;
    state.next_vcb = (vcb + 1) % abi::kMaxVcbsPerSession;
    if (collect_vcb(session, vcb)) {
      ++taken;
    } else {
      cpu_.charge(session, kDoorbellCost);
      state.unfinished |= std::uint64_t{1} << vcb;
    }
  }
  if (state.unfinished != unfinished) {
    state.unfinished_interval =
        std::clamp(2 * state.unfinished_interval, kFirstLookAgain, kLastLookAgain);
    state.unfinished_due = clock_.now + state.unfinished_interval;
  } else if (unfinished == 0) {
    state.unfinished_interval = {};
  }
  taken += collect_doorbells(session, end);
  if (taken != 0) session.last_active = clock_.now;
  state.waiting = session.view.has_work(state.unfinished);
  return taken;
}

/// False: the command is not whole yet.
bool Engine::collect_vcb(Session& session, std::uint32_t vcb) {
  const std::uint64_t scoreboard = session.view.scoreboard(vcb);
  const VcbId id(session.first_vcb.value + vcb);
  const auto pcb = collector_.begin(id);
  if (!pcb) {
    if (!send_queue_mode(session, vcb, scoreboard)) return false;
    session.view.release(std::uint64_t{1} << vcb);
    return true;
  }

  collect::Pcb& buffer = pcbs_.pcb(*pcb);
  const bool whole = (scoreboard & abi::kAllSegments) == abi::kAllSegments;
  Verdict copied = Verdict::kOk;
  collect::Progress progress = collect::Progress::kKick;
  if (whole) {
    copied = session.view.copy_command(vcb, buffer.header, buffer.payload.data());
  } else {
    const std::uint64_t news = scoreboard & ~pcbs_.state(*pcb).scoreboard.bits();
    session.view.copy_segments(vcb, news, buffer.header, buffer.payload.data());
    progress = collector_.add(*pcb, scoreboard);
    if (progress == collect::Progress::kCollecting) return false;
    copied = shm::check_payload(buffer.header, abi::kCommandPayloadBytes);
  }
  session.view.release(std::uint64_t{1} << vcb);
  if (copied != Verdict::kOk || progress == collect::Progress::kBadLength) {
    refuse(session);
    collector_.discard(*pcb);
    return true;
  }
  collector_.unbind(*pcb);
  accept(session, *pcb);
  return true;
}

/// Has an unfinished VCB changed such that it is worth a look?
bool Engine::has_news(const Session& session, std::uint32_t vcb) const {
  const std::uint64_t scoreboard = session.view.scoreboard(vcb);
  const PcbId pcb = functions_[VcbId(session.first_vcb.value + vcb)].pcb;
  if ((scoreboard & abi::kExplicitKick) != 0) return true;
  if (pcb == collect::kNoPcb)
    return (scoreboard & collect::kDoorbellSegments) == collect::kDoorbellSegments;
  return (scoreboard & abi::kAllSegments & ~pcbs_.state(pcb).scoreboard.bits()) != 0;
}

bool Engine::send_queue_mode(Session& session, std::uint32_t vcb, std::uint64_t scoreboard) {
  if ((scoreboard & collect::kDoorbellSegments) != collect::kDoorbellSegments) return false;
  collect::Pcb header_only;
  session.view.copy_segments(vcb, collect::kDoorbellSegments, header_only.header,
                             header_only.payload.data());
  session.count_send_queue_mode(SendQueueCause::kNoPcb);
  ring(session, Qpn(header_only.header.qpn), header_only.header.sequence + 1);
  return true;
}

QueuePair* Engine::find_owned(const Session& session, std::uint32_t qpn) const {
  QueuePair* qp = find(Qpn(qpn));
  return qp != nullptr && qp->session == &session ? qp : nullptr;
}

/// A complete command in a PCB of its own: kick it, or, out of turn or with the kick list full,
/// let a doorbell take its place (B3).
void Engine::accept(Session& session, PcbId pcb) {
  const abi::CommandHeader& header = pcbs_.pcb(pcb).header;
  QueuePair* qp = find_owned(session, header.qpn);
  if (qp == nullptr || !scheduler_.is_open(schedule::QpSlot(qp->slot))) {
    refuse(session);
    pcbs_.free(pcb);
    return;
  }
  const schedule::QpSlot slot(qp->slot);
  const bool in_order =
      qp->state != QpState::kSqd && scheduler_.vcb_may_start(slot, header.sequence);
  if (in_order && arbitrator_.kick(qp->tvl, pcb)) {
    commands_.prepare(*qp, pcb);
    scheduler_.vcb_kicked(slot);
    return;
  }
  const std::uint32_t end = header.sequence + 1;
  pcbs_.free(pcb);
  session.count_send_queue_mode(in_order ? SendQueueCause::kKickListFull : SendQueueCause::kOrder);
  ring(session, qp->qpn, end);
}

std::size_t Engine::collect_doorbells(Session& session, std::uint64_t end) {
  std::size_t taken = 0;
  abi::Doorbell doorbell;
  while (taken == 0 || cpu_.done() < end) {
    const shm::Take take = session.view.next_doorbell(doorbell);
    if (take == shm::Take::kEmpty) break;
    if (take == shm::Take::kHostile) {
      fail_session(session);
      break;
    }
    session.tenant->counters.doorbells.add();
    ring(session, Qpn(doorbell.qpn), doorbell.sequence);
    ++taken;
  }
  return taken;
}

/// What names no command.
void Engine::refuse(const Session& session) {
  cpu_.charge(session, kDoorbellCost);
  session.tenant->counters.malformed_commands.add();
}

void Engine::ring(Session& session, Qpn qpn, std::uint32_t sequence_end) {
  QueuePair* qp = find_owned(session, qpn.value);
  if (qp == nullptr || !scheduler_.is_open(schedule::QpSlot(qp->slot))) return refuse(session);
  cpu_.charge(session, kDoorbellCost);
  const auto verdict = scheduler_.ring(schedule::QpSlot(qp->slot), sequence_end);
  if (verdict == schedule::RingVerdict::kHostile) doorbell_fails(*qp);
}

/// A doorbell, rung or read back from the overflow buffer, says what cannot be.
void Engine::doorbell_fails(QueuePair& qp) {
  qp.tenant->counters.hostile_memory.add();
  async_events_.raise(qp, EventType::kQpFatal);
  event_log_.add(event_of(DaemonEventKind::kHostileMemory, *qp.session, qp.qpn, "doorbell"));
  qp.failure = "its doorbell held nonsense";
  enter_error(qp);
}

/// The session's own words contradict themselves: nothing more is read from it, its queue pairs
/// fail, everybody else goes on.
void Engine::fail_session(Session& session) {
  session.failed = true;
  intake_.rest(session);
  session.tenant->counters.hostile_memory.add();
  event_log_.add(event_of(DaemonEventKind::kHostileMemory, session, Qpn(), "session memory"));
  session.queue_pairs.for_each([&](QueuePair& qp) {
    cpu_.charge(session, kSweepCost);
    // What an XRC target works by is not in the memory of a process.
    if (!qp.sends() || qp.state == QpState::kReset) return;
    async_events_.raise(qp, EventType::kQpFatal);
    qp.failure = "the memory of its session holds nonsense";
    enter_error(qp);
  });
}

}  // namespace softhca::engine
