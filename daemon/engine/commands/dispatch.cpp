// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/dispatch.hpp"

#include <algorithm>

#include "daemon/base/probes.hpp"
#include "daemon/engine/commands/qp_stall.hpp"
#include "daemon/engine/records/costs.hpp"
#include "daemon/engine/turns/session_poller.hpp"

namespace softhca::engine {
namespace {

using schedule::KickedIn;

// A queue pair with a peer that is slow to acknowledge holds its fetched commands for long. The
// others go on because it holds at most this many of the class's dedicated PCBs.
constexpr std::uint32_t kDedicatedPerQueuePair = 64;

// The opcode of a command that cannot be copied. It is refused when its turn comes, so that
// completions stay in order.
constexpr std::uint8_t kNoOpcode = 0xff;

// Most turns in a poll step that may pass without a fetch.
constexpr std::size_t kMostWithoutFetch = 8;

}  // namespace

/// True if the queue pair may fetch a command. If not, the end of its stall, a turn of it to send,
/// or the end of one of its commands gives it another turn.
inline bool Dispatch::may_fetch(const QueuePair& qp, std::uint32_t sequence) {
  if (qp.sq.stalled || qp.sq.aside != SetAside::kNo) return false;
  if (qp.state == QpState::kSqd && !qp.sq.has_begun(sequence)) return false;
  if (qp.sq.probing && qp.sq.commands != 0) return false;
  return !qp.sq.sparing || QpStall::has_sent_all(qp);
}

/// Kicks a command of the queue pair, in an ordinary PCB if one is available and the kick list of
/// its TVL has room. If not, dedicated PCBs and their TVL keep up the progress of queue pairs.
/// `list`: where its earlier commands wait, which must start before it may take the other list.
/// Becomes where this one waits. Nothing: an obstacle, which was reported to the scheduler.
inline OptionalPcb Dispatch::kick(QueuePair& qp, KickedIn& list) {
  if (list == KickedIn::kDedicatedTvl) return kick_dedicated(qp, list);
  if (!commands_.ahead().has_room(qp.sq.tvl)) {
    commands_.wait_for_room(qp, qp.sq.tvl);
    return std::nullopt;
  }
  const OptionalPcb pcb = pcbs_.allocate(qp.qos_class);
  if (pcb && arbitrator_.kick(qp.sq.tvl, *pcb)) {
    list = KickedIn::kOwnTvl;
    return pcb;
  }
  if (pcb) pcbs_.free(*pcb);
  qp.sq.waits.fetch = pcb ? WaitCause::kKickList : WaitCause::kNoPcb;
  return kick_dedicated(qp, list);
}

/// Does the same in a dedicated PCB. The last free one of a class is for a queue pair that holds
/// none.
OptionalPcb Dispatch::kick_dedicated(QueuePair& qp, KickedIn& list) {
  const bool may_have_more =
      qp.sq.dedicated < kDedicatedPerQueuePair && commands_.free_dedicated(qp.qos_class) > 1;
  if (list == KickedIn::kOwnTvl || (qp.sq.dedicated != 0 && !may_have_more)) {
    scheduler_.block(schedule::QpSlot(qp.slot));
    return std::nullopt;
  }
  const OptionalPcb pcb = pcbs_.allocate_dedicated(qp.qos_class);
  if (!pcb) {
    commands_.found_none(qp.qos_class);
    scheduler_.block_class(qp.qos_class);
    return std::nullopt;
  }
  if (arbitrator_.kick(qp.sq.dedicated_tvl, *pcb)) {
    list = KickedIn::kDedicatedTvl;
    return pcb;
  }
  pcbs_.free(*pcb);
  commands_.wait_for_room(qp, qp.sq.dedicated_tvl);
  return std::nullopt;
}

/// True if no rate holds the queue pair. If one does, that was reported to the scheduler.
inline bool Dispatch::obeys_rates(QueuePair& qp) {
  switch (rates_.hold(qp)) {
    case RateControl::Hold::kNone:
      return true;
    case RateControl::Hold::kClass:
      scheduler_.block_class(qp.qos_class);
      return false;
    case RateControl::Hold::kQueuePair:
      qp.sq.waits.fetch = WaitCause::kRate;
      scheduler_.block(schedule::QpSlot(qp.slot));
      return false;
  }
  return true;
}

/// Returns the PCB for a command that is to be fetched. `list`: as for kick(). Nothing: an
/// obstacle, which was reported to the scheduler.
inline OptionalPcb Dispatch::place_for(QueuePair& qp, std::uint32_t sequence, KickedIn& list) {
  if (!obeys_rates(qp)) return std::nullopt;
  if (may_fetch(qp, sequence)) return kick(qp, list);
  scheduler_.block(schedule::QpSlot(qp.slot));
  return std::nullopt;
}

/// Fetches the commands of a turn, until the engine's work is `end` or there is an obstacle, which
/// is reported to the scheduler. Returns how many.
std::uint32_t Dispatch::fetch_some(QueuePair& qp, const schedule::FetchTurn& turn,
                                   std::uint64_t end) {
  KickedIn list = scheduler_.kicked_in(turn.slot);
  bool stopped = false;
  std::uint32_t fetched = 0;
  for (; fetched < turn.count && cpu_.done() < end; ++fetched) {
    const std::uint32_t sequence = turn.sequence + fetched;
    const OptionalPcb pcb = place_for(qp, sequence, list);
    stopped = !pcb;
    if (stopped) break;
    collect::Pcb& buffer = pcbs_.pcb(*pcb);
    if (qp.sq.ring.copy(sequence, buffer.header, buffer.payload.data()) != Verdict::kOk)
      buffer.header.opcode = kNoOpcode;
    buffer.header.qpn = qp.qpn.value;
    buffer.header.sequence = sequence;
    commands_.prepare(qp, *pcb);
    commands_.fetched(qp, *pcb, list == KickedIn::kDedicatedTvl ? qp.sq.dedicated_tvl : qp.sq.tvl);
  }
  if (!stopped && list == KickedIn::kOwnTvl) qp.sq.waits.fetch = WaitCause::kEngine;
  if (fetched != 0) scheduler_.fetched(turn.slot, fetched, list);
  return fetched;
}

std::size_t Dispatch::fetch() {
  commands_.end_waits();
  const std::uint64_t end = cpu_.done() + cpu_.budget().intake;
  std::size_t work = 0;
  QosClassId passed = kNoQosClass;  // first class that has had more than its share
  for (std::size_t without = 0; cpu_.done() < end && without < kMostWithoutFetch;) {
    const auto turn = scheduler_.next();
    if (!turn) break;
    QueuePair& qp = queue_pairs_[turn->slot.value];
    if (!cpu_.may_take_in(qp.qos_class)) {
      if (passed == qp.qos_class) break;
      if (passed == kNoQosClass) passed = qp.qos_class;
      continue;
    }
    cpu_.begin_work(qp.qos_class);
    clock_.work_on(subject_of(qp));
    commands_.end_wait(qp);
    const std::uint64_t turn_end = std::min(end, cpu_.done() + cpu_.budget().turn);
    const std::uint32_t fetched = fetch_some(qp, *turn, turn_end);
    if (fetched == 0) cpu_.charge(qp, kRunCost);
    without += fetched == 0;
    work += fetched;
  }
  return work;
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
  if (Level* level = level_of(qp)) level->counters.arbitration_wait.add(waited);
  const std::uint32_t sequence = pcbs_.pcb(next->pcb).header.sequence;
  if (abi::is_sampled(sequence)) commands_.samples().started(qp, sequence);
  probes::command_started(qp.qpn.value, sequence);
  scheduler_.started(schedule::QpSlot(qp.slot));
  commands_.left_kick_list(next->pcb, next->tvl);
  return next->pcb;
}

}  // namespace softhca::engine
