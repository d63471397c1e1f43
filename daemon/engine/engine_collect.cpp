// From the session memory of processes to complete commands in PCBs (mechanisms A4, A5, B1, C).
#include <bit>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

std::size_t Engine::collect_commands() {
  std::size_t work = 0;
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    Session& session = *sessions_[i];
    if (!session.is_collected()) continue;
    session.looked_before = session.looked;
    session.looked = effort_;
    std::size_t taken = 0;
    for (std::uint64_t pending = session.view.pending(); pending != 0; pending &= pending - 1) {
      collect_vcb(session, static_cast<std::uint32_t>(std::countr_zero(pending)));
      ++taken;
    }
    taken += collect_doorbells(session);
    if (taken != 0) session.last_active = now_;
    work += taken;
  }
  return work;
}

void Engine::collect_vcb(Session& session, std::uint32_t vcb) {
  const std::uint64_t scoreboard = session.view.scoreboard(vcb);
  const VcbId id(session.first_vcb.value + vcb);
  const auto pcb = collector_.begin(id);
  if (!pcb) {
    if (send_queue_mode(session, vcb, scoreboard)) session.view.release(std::uint64_t{1} << vcb);
    return;
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
    if (progress == collect::Progress::kCollecting) return;
    copied = shm::check_payload(buffer.header, abi::kCommandPayloadBytes);
  }
  session.view.release(std::uint64_t{1} << vcb);
  if (copied != Verdict::kOk || progress == collect::Progress::kBadLength) {
    session.tenant->counters.malformed_commands.add();
    collector_.discard(*pcb);
    return;
  }
  collector_.unbind(*pcb);
  accept(session, *pcb);
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
    session.tenant->counters.malformed_commands.add();
    pcbs_.free(pcb);
    return;
  }
  const schedule::QpSlot slot(qp->slot);
  const bool in_order = scheduler_.vcb_may_start(slot, header.sequence);
  if (in_order && arbitrator_.kick(qp->tvl, pcb)) {
    prepare(*qp, pcb);
    scheduler_.vcb_kicked(slot);
    session.tenant->counters.commands_vcb.add();
    if (session.level != nullptr) session.level->counters.commands_vcb.add();
    return;
  }
  const std::uint32_t end = header.sequence + 1;
  pcbs_.free(pcb);
  session.count_send_queue_mode(in_order ? SendQueueCause::kKickListFull : SendQueueCause::kOrder);
  ring(session, qp->qpn, end);
}

std::size_t Engine::collect_doorbells(Session& session) {
  std::size_t taken = 0;
  abi::Doorbell doorbell;
  while (taken < abi::kDoorbellEntries) {
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

void Engine::ring(Session& session, Qpn qpn, std::uint32_t sequence_end) {
  QueuePair* qp = find_owned(session, qpn.value);
  if (qp == nullptr || !scheduler_.is_open(schedule::QpSlot(qp->slot))) {
    session.tenant->counters.malformed_commands.add();
    return;
  }
  const auto verdict = scheduler_.ring(schedule::QpSlot(qp->slot), sequence_end);
  if (verdict == schedule::RingVerdict::kHostile) doorbell_fails(*qp);
}

/// A doorbell, rung or read back from the overflow buffer, says what cannot be.
void Engine::doorbell_fails(QueuePair& qp) {
  qp.tenant->counters.hostile_memory.add();
  raise(qp, EventType::kQpFatal);
  report(DaemonEventKind::kHostileMemory, *qp.session, qp.qpn, "doorbell");
  qp.failure = "its doorbell held nonsense";
  enter_error(qp);
}

/// The session's own words contradict themselves: nothing more is read from it, its queue pairs
/// fail, everybody else goes on.
void Engine::fail_session(Session& session) {
  session.failed = true;
  session.tenant->counters.hostile_memory.add();
  report(DaemonEventKind::kHostileMemory, session, Qpn(), "session memory");
  for (QueuePair* qp : queue_pairs_) {
    // What an XRC target works by is not in the memory of a process.
    if (qp == nullptr || qp->session != &session || !qp->sends() || qp->state == QpState::kReset)
      continue;
    raise(*qp, EventType::kQpFatal);
    qp->failure = "the memory of its session holds nonsense";
    enter_error(*qp);
  }
}

}  // namespace softhca::engine
