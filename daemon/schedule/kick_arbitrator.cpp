#include "daemon/schedule/kick_arbitrator.hpp"

#include <cassert>

namespace softhca::schedule {

KickArbitrator::KickArbitrator(TvlTable& table, std::uint32_t pcbs)
    : table_(table), lanes_(table.max_tvls()), nodes_(pcbs) {}

bool KickArbitrator::kick(TvlId tvl, PcbId pcb) {
  Lane& lane = lanes_[tvl.value];
  if (lane.counters.waiting.value() >= table_[tvl].max_kick_list) {
    lane.counters.refused.add();
    return false;
  }
  nodes_[pcb.value].tvl = tvl;
  lane.list.push_back(nodes_.data(), pcb.value);
  lane.counters.waiting.add();
  lane.counters.waiting_high_water.raise_to(lane.counters.waiting.value());
  if (lane.state == State::kIdle) {
    lane.turn = table_[tvl].weight;
    enter_round(tvl.value);
  }
  return true;
}

std::optional<Start> KickArbitrator::next() {
  wake_by_shared();
  for (;;) {
    while (!round_.empty()) {
      const std::uint32_t lane = round_.front();
      const Tvl& tvl = table_[TvlId(static_cast<std::uint16_t>(lane))];
      if (!table_.execution_pool().available(tvl.execution))
        wait(lane, State::kWaitExecution);
      else if (!table_.completion_pool().available(tvl.completion))
        wait(lane, State::kWaitCompletion);
      else
        return start(lane);
    }
    // Ends: no credit comes back meanwhile, so a TVL woken in vain waits for the other kind next,
    // of which there is none.
    if (!woken_by_shared()) return std::nullopt;
    wake_by_shared();
  }
}

Start KickArbitrator::start(std::uint32_t index) {
  Lane& lane = lanes_[index];
  const TvlId id(static_cast<std::uint16_t>(index));
  Tvl& tvl = table_[id];
  [[maybe_unused]] const bool executes = table_.execution_pool().take(tvl.execution);
  [[maybe_unused]] const bool completes = table_.completion_pool().take(tvl.completion);
  assert(executes && completes);
  const PcbId pcb(lane.list.pop_front(nodes_.data()));
  lane.counters.waiting.subtract();
  lane.counters.started.add();
  if (lane.list.empty()) {
    leave(index);
  } else if (--lane.turn == 0) {
    lane.turn = tvl.weight;
    round_.rotate(lanes_.data());
  }
  return {id, pcb};
}

void KickArbitrator::return_execution(TvlId id) {
  Tvl& tvl = table_[id];
  table_.execution_pool().put(tvl.execution);
  if (lanes_[id.value].state == State::kWaitExecution && tvl.execution.below_guarantee())
    enter_round(id.value);
}

void KickArbitrator::return_completion(TvlId id) {
  Tvl& tvl = table_[id];
  table_.completion_pool().put(tvl.completion);
  if (lanes_[id.value].state == State::kWaitCompletion && tvl.completion.below_guarantee())
    enter_round(id.value);
}

bool KickArbitrator::remove(PcbId pcb) {
  if (!queued(pcb)) return false;
  const std::uint32_t index = nodes_[pcb.value].tvl.value;
  Lane& lane = lanes_[index];
  lane.list.remove(nodes_.data(), pcb.value);
  lane.counters.waiting.subtract();
  if (lane.list.empty()) leave(index);
  return true;
}

/// Out of the round or the waiting list.
void KickArbitrator::leave(std::uint32_t index) {
  Lane& lane = lanes_[index];
  if (lane.link.linked()) {
    LaneList& list = lane.state == State::kRound           ? round_
                     : lane.state == State::kWaitExecution ? wait_execution_
                                                           : wait_completion_;
    list.remove(lanes_.data(), index);
  }
  lane.state = State::kIdle;
}

/// A TVL whose turn has begun already goes to the front: it takes up the rest.
void KickArbitrator::enter(LaneList& list, std::uint32_t index) {
  const bool amid_turn =
      lanes_[index].turn != table_[TvlId(static_cast<std::uint16_t>(index))].weight;
  amid_turn ? list.push_front(lanes_.data(), index) : list.push_back(lanes_.data(), index);
}

void KickArbitrator::enter_round(std::uint32_t index) {
  leave(index);
  enter(round_, index);
  lanes_[index].state = State::kRound;
}

void KickArbitrator::wait(std::uint32_t index, State state) {
  Lane& lane = lanes_[index];
  const Tvl& tvl = table_[TvlId(static_cast<std::uint16_t>(index))];
  const bool execution = state == State::kWaitExecution;
  (execution ? lane.counters.execution_waits : lane.counters.completion_waits).add();
  leave(index);
  if ((execution ? tvl.execution : tvl.completion).may_share)
    enter(execution ? wait_execution_ : wait_completion_, index);
  lane.state = state;
}

bool KickArbitrator::woken_by_shared() const {
  return (!wait_execution_.empty() && table_.execution_pool().shared_free() > 0) ||
         (!wait_completion_.empty() && table_.completion_pool().shared_free() > 0);
}

/// One TVL of each kind a call: enough, because next() comes back here for every start.
void KickArbitrator::wake_by_shared() {
  if (!wait_execution_.empty() && table_.execution_pool().shared_free() > 0)
    enter_round(wait_execution_.front());
  if (!wait_completion_.empty() && table_.completion_pool().shared_free() > 0)
    enter_round(wait_completion_.front());
}

}  // namespace softhca::schedule
