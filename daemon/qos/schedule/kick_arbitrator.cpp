// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/kick_arbitrator.hpp"

#include <algorithm>
#include <cassert>

namespace softhca::schedule {

KickArbitrator::KickArbitrator(TvlTable& table, std::uint32_t pcbs, const MinimumRates* minimums)
    : table_(table), tvls_(table.size()), nodes_(pcbs), minimums_(minimums) {}

std::optional<PcbId> KickArbitrator::first(TvlId tvl) const {
  const KickList& list = tvls_[tvl.value].list;
  if (list.empty()) return std::nullopt;
  return PcbId(list.front());
}

inline void KickArbitrator::append(TvlId tvl, PcbId pcb) {
  TvlKicks& kicks = tvls_[tvl.value];
  const bool rested = kicks.list.empty();
  nodes_[pcb.value].tvl = tvl;
  kicks.list.push_back(nodes_.data(), pcb.value);
  add_one(kicks.counters.waiting, kicks.counters.waiting_high_water);
  if (heeds()) [[unlikely]]
    cover(tvl.value);
  if (rested) begin_turn(tvl.value, table_[tvl].weight);
}

bool KickArbitrator::kick(TvlId tvl, PcbId pcb) {
  TvlKicks& kicks = tvls_[tvl.value];
  if (kicks.counters.waiting.value() >= table_[tvl].max_kick_list) {
    kicks.counters.refused.add();
    return false;
  }
  append(tvl, pcb);
  return true;
}

void KickArbitrator::move(PcbId pcb, TvlId to) {
  [[maybe_unused]] const bool removed = remove(pcb);
  assert(removed);
  append(to, pcb);
}

/// To be called when the TVL has its first command.
void KickArbitrator::begin_turn(std::uint32_t index, std::uint32_t weight) {
  TvlKicks& kicks = tvls_[index];
  if (kicks.state == State::kIdle)
    kicks.turn = weight;
  else if (kicks.turn == weight)
    return;
  enter(index, State::kFront);
}

/// Finds the TVL that has its turn. TVLs that come to the front without a command have been idle
/// for a round, and leave it. False: no TVL has a command.
inline bool KickArbitrator::first_in_turn(std::uint32_t& index) {
  const TvlList &front = list_of(State::kFront), &round = list_of(State::kRound);
  for (;;) {
    index = front.empty() ? round.front() : front.front();
    if (index == kNoIndex) return false;
    if (!tvls_[index].list.empty()) return true;
    leave(index);
  }
}

/// Lists the TVL, which has commands, if a minimum may hold for it.
void KickArbitrator::cover(std::uint32_t index) {
  if (!tvls_[index].covered.linked() &&
      minimums_->covers(table_[TvlId(static_cast<std::uint16_t>(index))].qos_class))
    covered_.push_back(tvls_.data(), index);
}

/// Takes the first command of the kick list, and its credits. REQUIRES: both were requested.
inline PcbId KickArbitrator::take_first(std::uint32_t index) {
  TvlKicks& kicks = tvls_[index];
  Tvl& tvl = table_[TvlId(static_cast<std::uint16_t>(index))];
  table_.execution_pool().take_requested(tvl.execution);
  table_.completion_pool().take_requested(tvl.completion);
  const PcbId pcb(kicks.list.pop_front(nodes_.data()));
  kicks.counters.waiting.subtract();
  kicks.counters.started.add();
  return pcb;
}

inline PcbId KickArbitrator::start(std::uint32_t index) {
  const PcbId pcb = take_first(index);
  TvlKicks& kicks = tvls_[index];
  const bool turn_ends = --kicks.turn == 0;
  if (turn_ends) kicks.turn = table_[TvlId(static_cast<std::uint16_t>(index))].weight;
  if (kicks.list.empty())
    empty(index);
  else if (turn_ends && kicks.state == State::kFront)
    to_end_of_round(index);
  else if (turn_ends)
    list_of(State::kRound).rotate(tvls_.data());
  return pcb;
}

/// Starts the next command of a TVL that is behind and has both credits. These TVLs go round.
OptionalPcb KickArbitrator::start_behind() {
  for (std::uint32_t i = covered_.front(); i != kNoIndex; i = covered_.next(tvls_.data(), i)) {
    const TvlId id(static_cast<std::uint16_t>(i));
    Tvl& tvl = table_[id];
    if (!minimums_->behind(tvl.qos_class)) continue;
    if (!table_.execution_pool().request(tvl.execution) ||
        !table_.completion_pool().request(tvl.completion))
      continue;
    const PcbId pcb = take_first(i);
    if (tvls_[i].list.empty()) {
      empty(i);
    } else {
      covered_.remove(tvls_.data(), i);
      covered_.push_back(tvls_.data(), i);
    }
    return pcb;
  }
  return std::nullopt;
}

OptionalPcb KickArbitrator::start_next() {
  if (heeds()) [[unlikely]]
    if (const OptionalPcb pcb = start_behind()) return pcb;
  if (waiting_ != 0) wake();
  for (;;) {
    for (std::uint32_t index; first_in_turn(index);) {
      Tvl& tvl = table_[TvlId(static_cast<std::uint16_t>(index))];
      if (!table_.execution_pool().request(tvl.execution)) {
        tvls_[index].counters.execution_waits.add();
        wait(index, tvl.execution, kExecution);
      } else if (!table_.completion_pool().request(tvl.completion)) {
        tvls_[index].counters.completion_waits.add();
        wait(index, tvl.completion, kCompletion);
      } else {
        return start(index);
      }
    }
    // The loop ends, since no credit comes back meanwhile. A TVL that finds its credit taken waits
    // for the other kind next, and no credit of that kind is free.
    if (!can_wake_any()) return std::nullopt;
    wake();
  }
}

void KickArbitrator::own_came_back(std::uint32_t index, const Quota& quota, const Waits& states) {
  const State state = tvls_[index].state;
  if ((state == states.own || state == states.shared || state == states.lent) &&
      quota.below_guarantee())
    enter(index, State::kRound);
}

bool KickArbitrator::remove(PcbId pcb) {
  if (!queued(pcb)) return false;
  const std::uint32_t index = nodes_[pcb.value].tvl.value;
  TvlKicks& kicks = tvls_[index];
  kicks.list.remove(nodes_.data(), pcb.value);
  kicks.counters.waiting.subtract();
  if (kicks.list.empty()) empty(index);
  return true;
}

void KickArbitrator::refresh() {
  for (std::uint32_t i = 0; i < tvls_.size(); ++i) {
    const TvlId id(static_cast<std::uint16_t>(i));
    if (tvls_[i].state == State::kIdle) continue;
    tvls_[i].turn = std::min(tvls_[i].turn, table_[id].weight);
    if (waits(tvls_[i].state)) enter(i, State::kRound);
  }
}

/// To be called when the TVL has no command any more.
void KickArbitrator::empty(std::uint32_t index) {
  if (tvls_[index].covered.linked()) covered_.remove(tvls_.data(), index);
  to_end_of_round(index);
}

/// Puts a TVL at the end of the round, since its turn is over or it has no command. If it has none,
/// and no other TVL is in the round or waits, the round is over as well.
void KickArbitrator::to_end_of_round(std::uint32_t index) {
  leave(index);
  TvlKicks& kicks = tvls_[index];
  TvlList& round = list_of(State::kRound);
  if (kicks.list.empty() && round.empty() && list_of(State::kFront).empty() && waiting_ == 0)
    return;
  round.push_back(tvls_.data(), index);
  kicks.state = State::kRound;
}

/// Takes a TVL out of the list of its state.
void KickArbitrator::leave(std::uint32_t index) {
  TvlKicks& kicks = tvls_[index];
  if (kicks.link.linked()) list_of(kicks.state).remove(tvls_.data(), index);
  waiting_ -= waits(kicks.state);
  kicks.state = State::kIdle;
}

/// Puts the TVL into the list of the state. A TVL amid its turn comes first in the round or in a
/// waiting list, and takes up the rest of its turn.
void KickArbitrator::enter(std::uint32_t index, State state) {
  leave(index);
  TvlKicks& kicks = tvls_[index];
  TvlList& list = list_of(state);
  const bool amid_turn = state != State::kFront &&
                         kicks.turn != table_[TvlId(static_cast<std::uint16_t>(index))].weight;
  list.push(tvls_.data(), index, amid_turn);
  kicks.state = state;
  waiting_ += waits(state);
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

bool KickArbitrator::some_can_wake() const {
  return std::any_of(kWoken.begin(), kWoken.end(), [this](State s) { return can_wake(s); });
}

/// Wakes one TVL of each list per call. That is enough, since next() comes back here for every
/// start.
void KickArbitrator::wake() {
  for (const State state : kWoken)
    if (can_wake(state)) enter(list_of(state).front(), State::kRound);
}

}  // namespace softhca::schedule
