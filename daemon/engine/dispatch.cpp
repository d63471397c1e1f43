#include "daemon/engine/dispatch.hpp"

#include <algorithm>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/session_poller.hpp"

namespace softhca::engine {
namespace {

// A queue pair whose peer is slow to acknowledge holds its fetched commands for long: the others go
// on because it holds at most this many of the tenant's dedicated PCBs.
constexpr std::uint32_t kFetchedPerQueuePair = 64;

// Turns in a poll step that may pass without a fetch.
constexpr std::size_t kMostWithoutFetch = 8;

}  // namespace

std::size_t Dispatch::fetch() {
  const std::uint64_t end = cpu_.done() + cpu_.budget().ingress;
  std::size_t work = 0;
  QosClassId passed = kNoQosClass;  // the first of those that have had more than their share
  for (std::size_t without = 0; cpu_.done() < end && without < kMostWithoutFetch;) {
    const auto turn = scheduler_.next();
    if (!turn) break;
    QueuePair& qp = queue_pairs_[turn->slot.value];
    if (!cpu_.may_take_in(qp.qos_class)) {
      if (passed == qp.qos_class) break;
      if (passed == kNoQosClass) passed = qp.qos_class;
      continue;
    }
    const std::uint64_t turn_end = std::min(end, cpu_.done() + cpu_.budget().turn);
    std::uint32_t fetched = 0;
    while (fetched < turn->count && cpu_.done() < turn_end &&
           fetch_one(qp, turn->sequence + fetched))
      ++fetched;
    if (fetched != 0) scheduler_.fetched(turn->slot, fetched);
    without += fetched == 0;
    work += fetched;
  }
  return work;
}

/// May the queue pair fetch a command? If not, the end of its stall or of one of its commands gives
/// it another turn. The last PCB of a class is for a queue pair that holds none.
bool Dispatch::may_fetch(const QueuePair& qp, std::uint32_t sequence) const {
  if (qp.sq.stalled || (qp.state == QpState::kSqd && !qp.sq.has_begun(sequence))) return false;
  if (qp.sq.fetched == 0) return true;
  return !qp.sq.probing && qp.sq.fetched < kFetchedPerQueuePair &&
         commands_.free_dedicated(qp.qos_class) > 1;
}

/// False: an obstacle, which the scheduler has been told of.
bool Dispatch::fetch_one(QueuePair& qp, std::uint32_t sequence) {
  if (qp.tenant->throttled()) {
    scheduler_.block_class(qp.qos_class);
    return false;
  }
  if (!may_fetch(qp, sequence)) {
    scheduler_.block(schedule::QpSlot(qp.slot));
    return false;
  }
  const auto pcb = pcbs_.allocate_dedicated(qp.session->qos_class);
  if (!pcb) {
    commands_.found_none(qp.qos_class);
    scheduler_.block_class(qp.qos_class);
    return false;
  }
  if (!arbitrator_.kick(qp.sq.dedicated_tvl, *pcb)) {
    pcbs_.free(*pcb);
    qp.session->kick_blocked() = true;
    scheduler_.block(schedule::QpSlot(qp.slot));
    return false;
  }
  collect::Pcb& buffer = pcbs_.pcb(*pcb);
  if (qp.sq.ring.copy(sequence, buffer.header, buffer.payload.data()) != Verdict::kOk)
    buffer.header.opcode = 0xff;  // refused when its turn comes, so that completions stay in order
  buffer.header.qpn = qp.qpn.value;
  buffer.header.sequence = sequence;
  commands_.prepare(qp, *pcb);
  commands_.fetched(qp);
  return true;
}

OptionalPcb Dispatch::next() {
  const auto next = arbitrator_.next();
  if (!next) return std::nullopt;
  CommandContext& command = commands_[next->pcb];
  command.tvl = next->tvl;
  command.execution_held = command.completion_held = true;
  QueuePair& qp = commands_.owner(next->pcb);
  commands_.remove_kicked(qp, next->pcb);
  const auto waited = static_cast<std::uint64_t>((clock_.now - command.kicked_at).count());
  qp.tenant->counters.arbitration_wait.add(waited);
  if (Level* level = qp.session->level) level->counters.arbitration_wait.add(waited);
  scheduler_.started(schedule::QpSlot(qp.slot));
  if (commands_.is_dedicated(next->pcb)) commands_.room_in_kick_list(qp);
  return next->pcb;
}

}  // namespace softhca::engine
