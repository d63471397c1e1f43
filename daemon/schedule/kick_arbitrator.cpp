#include "daemon/schedule/kick_arbitrator.hpp"

#include <algorithm>
#include <cassert>

namespace softhca::schedule {

KickArbitrator::KickArbitrator(TvlTable& table, std::uint32_t pcbs)
    : table_(table), lanes_(table.size()), nodes_(pcbs) {}

bool KickArbitrator::kick(TvlId tvl, PcbId pcb) {
  Lane& lane = lanes_[tvl.value];
  if (lane.counters.waiting.value() >= table_[tvl].max_kick_list) {
    lane.counters.refused.add();
    return false;
  }
  append(tvl, pcb);
  return true;
}

std::optional<PcbId> KickArbitrator::first(TvlId tvl) const {
  const KickList& list = lanes_[tvl.value].list;
  if (list.empty()) return std::nullopt;
  return PcbId(list.front());
}

void KickArbitrator::move(PcbId pcb, TvlId to) {
  [[maybe_unused]] const bool removed = remove(pcb);
  assert(removed);
  append(to, pcb);
}

void KickArbitrator::append(TvlId tvl, PcbId pcb) {
  Lane& lane = lanes_[tvl.value];
  nodes_[pcb.value].tvl = tvl;
  lane.list.push_back(nodes_.data(), pcb.value);
  lane.counters.waiting.add();
  lane.counters.waiting_high_water.raise_to(lane.counters.waiting.value());
  if (lane.state == State::kIdle) {
    lane.turn = table_[tvl].weight;
    enter(tvl.value, State::kRound);
  }
}

std::optional<Start> KickArbitrator::next() {
  wake();
  for (;;) {
    const LaneList& round = list_of(State::kRound);
    while (!round.empty()) {
      const std::uint32_t lane = round.front();
      Tvl& tvl = table_[TvlId(static_cast<std::uint16_t>(lane))];
      if (!table_.execution_pool().request(tvl.execution)) {
        lanes_[lane].counters.execution_waits.add();
        wait(lane, tvl.execution, kExecution);
      } else if (!table_.completion_pool().request(tvl.completion)) {
        lanes_[lane].counters.completion_waits.add();
        wait(lane, tvl.completion, kCompletion);
      } else {
        return start(lane);
      }
    }
    // Ends: no credit comes back meanwhile, so a TVL woken in vain waits for the other kind next,
    // of which there is none.
    if (!can_wake_any()) return std::nullopt;
    wake();
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
    list_of(State::kRound).rotate(lanes_.data());
  }
  return {id, pcb};
}

void KickArbitrator::return_execution(TvlId id) {
  Tvl& tvl = table_[id];
  table_.execution_pool().put(tvl.execution);
  own_came_back(id.value, tvl.execution, kExecution);
}

void KickArbitrator::return_completion(TvlId id) {
  Tvl& tvl = table_[id];
  table_.completion_pool().put(tvl.completion);
  own_came_back(id.value, tvl.completion, kCompletion);
}

void KickArbitrator::own_came_back(std::uint32_t index, const Quota& quota, const Waits& states) {
  const State state = lanes_[index].state;
  if ((state == states.own || state == states.shared || state == states.lent) &&
      quota.below_guarantee())
    enter(index, State::kRound);
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

void KickArbitrator::refresh() {
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    const TvlId id(static_cast<std::uint16_t>(i));
    if (lanes_[i].state == State::kIdle) continue;
    lanes_[i].turn = std::min(lanes_[i].turn, table_[id].weight);
    if (lanes_[i].state != State::kRound) enter(i, State::kRound);
  }
}

/// Out of the round or the waiting list.
void KickArbitrator::leave(std::uint32_t index) {
  Lane& lane = lanes_[index];
  if (lane.link.linked()) list_of(lane.state).remove(lanes_.data(), index);
  lane.state = State::kIdle;
}

/// A TVL whose turn has begun already goes to the front: it takes up the rest.
void KickArbitrator::enter(std::uint32_t index, State state) {
  leave(index);
  Lane& lane = lanes_[index];
  LaneList& list = list_of(state);
  const bool amid_turn = lane.turn != table_[TvlId(static_cast<std::uint16_t>(index))].weight;
  amid_turn ? list.push_front(lanes_.data(), index) : list.push_back(lanes_.data(), index);
  lane.state = state;
}

void KickArbitrator::wait(std::uint32_t index, const Quota& lacking, const Waits& states) {
  enter(index, lacking.below_guarantee()   ? states.any
               : lacking.lent.value() != 0 ? states.lent
               : lacking.may_share         ? states.shared
                                           : states.own);
}

bool KickArbitrator::can_wake(State state) const {
  if (list_of(state).empty()) return false;
  switch (state) {
    case State::kExecutionShared:
      return table_.execution_pool().borrowable() > 0;
    case State::kExecutionLent:
      return table_.execution_pool().shared_free() > 0;
    case State::kExecutionAny:
      return table_.execution_pool().free() > 0;
    case State::kCompletionShared:
      return table_.completion_pool().borrowable() > 0;
    case State::kCompletionLent:
      return table_.completion_pool().shared_free() > 0;
    case State::kCompletionAny:
      return table_.completion_pool().free() > 0;
    default:
      return false;
  }
}

bool KickArbitrator::can_wake_any() const {
  return std::any_of(kWoken.begin(), kWoken.end(), [this](State s) { return can_wake(s); });
}

/// One TVL of each list a call: enough, because next() comes back here for every start.
void KickArbitrator::wake() {
  for (const State state : kWoken)
    if (can_wake(state)) enter(list_of(state).front(), State::kRound);
}

}  // namespace softhca::schedule
