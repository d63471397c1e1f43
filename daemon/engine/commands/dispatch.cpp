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

// Most turns in a poll step that may pass without a fetch.
constexpr std::size_t kMostWithoutFetch = 8;

}  // namespace

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
    std::uint32_t fetched = 0;
    KickedIn list = scheduler_.kicked_in(turn->slot);
    bool stopped = false;
    while (fetched < turn->count && cpu_.done() < turn_end) {
      const KickedIn into = fetch_one(qp, turn->sequence + fetched, list);
      stopped = into == KickedIn::kNone;
      if (stopped) break;
      list = into;
      ++fetched;
    }
    if (!stopped && list == KickedIn::kOwnTvl) qp.sq.waits.fetch = WaitCause::kEngine;
    if (fetched != 0)
      scheduler_.fetched(turn->slot, fetched, list);
    else
      cpu_.charge(qp, kRunCost);
    without += fetched == 0;
    work += fetched;
  }
  return work;
}

/// True if the queue pair may fetch a command. If not, the end of its stall, a turn of it to send,
/// or the end of one of its commands gives it another turn.
bool Dispatch::may_fetch(const QueuePair& qp, std::uint32_t sequence) {
  if (qp.sq.stalled || qp.sq.aside != SetAside::kNo) return false;
  if (qp.state == QpState::kSqd && !qp.sq.has_begun(sequence)) return false;
  if (qp.sq.probing && qp.sq.commands != 0) return false;
  return !qp.sq.sparing || QpStall::has_sent_all(qp);
}

/// Kicks a command of the queue pair, in an ordinary PCB if one is available and the kick list of
/// its TVL has room. If not, dedicated PCBs and their TVL keep up the progress of queue pairs. The
/// last free dedicated PCB of a class is for a queue pair that holds none.
/// `list`: where its earlier commands wait, which must start before it may take the other list.
/// False: an obstacle, which was reported to the scheduler.
bool Dispatch::kick(QueuePair& qp, KickedIn list, Kicked& out) {
  if (list != KickedIn::kDedicatedTvl) {
    if (!commands_.ahead().has_room(qp.sq.tvl)) {
      commands_.wait_for_room(qp, qp.sq.tvl);
      return false;
    }
    if (const auto pcb = pcbs_.allocate(qp.qos_class)) {
      out = {*pcb, qp.sq.tvl, KickedIn::kOwnTvl};
      if (arbitrator_.kick(qp.sq.tvl, *pcb)) return true;
      pcbs_.free(*pcb);
      qp.sq.waits.fetch = WaitCause::kKickList;
    } else {
      qp.sq.waits.fetch = WaitCause::kNoPcb;
    }
  }
  const bool may_have_more =
      qp.sq.dedicated < kDedicatedPerQueuePair && commands_.free_dedicated(qp.qos_class) > 1;
  if (list == KickedIn::kOwnTvl || (qp.sq.dedicated != 0 && !may_have_more)) {
    scheduler_.block(schedule::QpSlot(qp.slot));
    return false;
  }
  const auto pcb = pcbs_.allocate_dedicated(qp.qos_class);
  if (!pcb) {
    commands_.found_none(qp.qos_class);
    scheduler_.block_class(qp.qos_class);
    return false;
  }
  out = {*pcb, qp.sq.dedicated_tvl, KickedIn::kDedicatedTvl};
  if (arbitrator_.kick(qp.sq.dedicated_tvl, *pcb)) return true;
  pcbs_.free(*pcb);
  commands_.wait_for_room(qp, qp.sq.dedicated_tvl);
  return false;
}

/// False: a rate holds the queue pair, which was reported to the scheduler.
bool Dispatch::obeys_rates(QueuePair& qp) {
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

/// Fetches a command. Returns the kick list that it was put into; kNone: an obstacle, which was
/// reported to the scheduler.
KickedIn Dispatch::fetch_one(QueuePair& qp, std::uint32_t sequence, KickedIn list) {
  if (!obeys_rates(qp)) return KickedIn::kNone;
  if (!may_fetch(qp, sequence)) {
    scheduler_.block(schedule::QpSlot(qp.slot));
    return KickedIn::kNone;
  }
  Kicked kicked;
  if (!kick(qp, list, kicked)) return KickedIn::kNone;
  const PcbId pcb = kicked.pcb;
  collect::Pcb& buffer = pcbs_.pcb(pcb);
  if (qp.sq.ring.copy(sequence, buffer.header, buffer.payload.data()) != Verdict::kOk)
    buffer.header.opcode = 0xff;  // refused when its turn comes, so that completions stay in order
  buffer.header.qpn = qp.qpn.value;
  buffer.header.sequence = sequence;
  commands_.prepare(qp, pcb);
  commands_.fetched(qp, pcb, kicked.tvl);
  return kicked.list;
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
