// SPDX-License-Identifier: Apache-2.0

// Virtual kick arbitrator (mechanisms A11, A12): selects the complete command that starts next.
//
// Every TVL has a virtual kick list, first in first out. A command starts when its TVL has its
// turn, and has an execution credit and a completion credit, its own or shared ones. Turns go round
// by weight: a TVL may start `weight` commands, then the next one has its turn. A TVL that lacks a
// credit leaves the round, waits for the credit, and keeps the rest of its turn. So no TVL ever
// blocks another, and the weights also hold when credits are short.
//
// A TVL that gets a command while its list is empty need not wait for all the others. It goes in
// front, with a turn, or with the rest of its turn. When its list is empty again it is idle at the
// end of the round. Only a round later may it begin a new turn in front. So it never has more than
// its weight in a round, as new flows in fair queuing (RFC 8290, section 4.2).
//
// A TVL goes before the round while its class or tenant is behind a minimum rate. That costs it
// none of its turns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/optional_id.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/schedule/minimum_rates.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::schedule {

/// A command to execute. It holds one execution and one completion credit of its TVL.
struct Start {
  TvlId tvl;
  PcbId pcb;
};

/// Counters of one TVL; may be read on any thread.
struct TvlCounters {
  Gauge waiting;             ///< commands in the kick list
  Gauge waiting_high_water;  ///< most at once
  Counter started;           ///< commands
  Counter refused;           ///< kicks that found the list full
  Counter execution_waits;   ///< times the TVL's turn came without an execution credit
  Counter completion_waits;  ///< the same, without a completion credit
};

class KickArbitrator {
 public:
  /// Serves the TVLs of `table`, also those added later, and PCBs below `pcbs`. `table` and
  /// `minimums` (null: there are none) outlive it. Allocates; set-up only.
  KickArbitrator(TvlTable& table, std::uint32_t pcbs, const MinimumRates* minimums = nullptr);

  /// Queues a complete command. False: the list is full, use send queue mode.
  /// REQUIRES: it is not queued.
  bool kick(TvlId tvl, PcbId pcb);

  /// Returns the next command to start, with both its credits taken. Nothing: no TVL has a command
  /// and both credits.
  std::optional<Start> next() {
    const OptionalPcb pcb = start_next();
    if (!pcb) return std::nullopt;
    return Start{nodes_[pcb->value].tvl, *pcb};
  }

  /// Gives an execution credit back: the last packet of the command is made.
  void return_execution(TvlId id) {
    Tvl& tvl = table_[id];
    table_.execution_pool().put(tvl.execution);
    if (waits(tvls_[id.value].state)) own_came_back(id.value, tvl.execution, kExecution);
  }
  /// Gives a completion credit back: the command was acknowledged, timed out or failed (reliable),
  /// or its last packet was sent (unreliable).
  void return_completion(TvlId id) {
    Tvl& tvl = table_[id];
    table_.completion_pool().put(tvl.completion);
    if (waits(tvls_[id.value].state)) own_came_back(id.value, tvl.completion, kCompletion);
  }

  /// Makes all TVLs that wait check again, since guarantees, caps or weights have changed.
  void refresh();
  /// Counts from 0, since the row is a new TVL. REQUIRES: its kick list is empty.
  void reset(TvlId tvl) { tvls_[tvl.value].counters = TvlCounters{}; }

  /// Returns the command that has waited longest in a kick list; nothing: the list is empty.
  std::optional<PcbId> first(TvlId tvl) const;
  /// Moves a queued command to the end of another kick list, however long that is, since its TVL is
  /// being closed. REQUIRES: it is queued.
  void move(PcbId pcb, TvlId to);

  /// Takes out a queued command (its queue pair died). False: it is not queued.
  bool remove(PcbId pcb);

  bool queued(PcbId pcb) const { return nodes_[pcb.value].link.linked(); }
  /// Returns the TVL of the kick list that it is in, or was in last.
  TvlId tvl_of(PcbId pcb) const { return nodes_[pcb.value].tvl; }
  /// True if some command may be ready to start, so that next() is worth a call. It may be true
  /// although none is.
  bool has_work() const {
    return !list_of(State::kFront).empty() || !list_of(State::kRound).empty() || can_wake_any();
  }

  /// True if the TVL has commands, and lacks this kind of credit for the next one.
  bool lacks_execution(TvlId tvl) const {
    const State state = tvls_[tvl.value].state;
    return state >= State::kExecutionOwn && state <= State::kExecutionAny;
  }
  bool lacks_completion(TvlId tvl) const {
    const State state = tvls_[tvl.value].state;
    return state >= State::kCompletionOwn && state <= State::kCompletionAny;
  }

  std::size_t tvl_count() const { return tvls_.size(); }
  const TvlCounters& counters(TvlId tvl) const { return tvls_[tvl.value].counters; }

 private:
  enum class State : std::uint8_t {
    kIdle,   ///< no command
    kFront,  ///< has its turn before those in the round
    kRound,  ///< takes its turns, or is idle: it has no command
    // The TVL has commands and lacks an execution credit. In the second row it has that and lacks a
    // completion credit. kOwn: it may not draw on the shared rest, so only the return of its own
    // helps. kShared: it may. kLent: it has lent some, and gets the first that comes back there.
    // kAny: it is below its guarantee, which is still filling (QuotaPool::overdrawn).
    kExecutionOwn,
    kExecutionShared,
    kExecutionLent,
    kExecutionAny,
    kCompletionOwn,
    kCompletionShared,
    kCompletionLent,
    kCompletionAny,
    kCount,
  };

  /// States that end when another TVL gives a credit back.
  static constexpr std::array kWoken = {State::kExecutionLent,    State::kExecutionShared,
                                        State::kExecutionAny,     State::kCompletionLent,
                                        State::kCompletionShared, State::kCompletionAny};
  /// The states of waiting for a kind of credit.
  struct Waits {
    State own, shared, lent, any;
  };
  static constexpr Waits kExecution = {State::kExecutionOwn, State::kExecutionShared,
                                       State::kExecutionLent, State::kExecutionAny};
  static constexpr Waits kCompletion = {State::kCompletionOwn, State::kCompletionShared,
                                        State::kCompletionLent, State::kCompletionAny};

  static bool waits(State state) { return state > State::kRound; }

  struct Node {
    IndexLink link;
    TvlId tvl;
  };
  using KickList = IndexList<Node, &Node::link>;

  struct TvlKicks {
    IndexLink link;     ///< in the list of its state
    IndexLink covered;  ///< has commands, and a minimum holds for it
    KickList list;
    std::uint32_t turn = 0;  ///< starts left of its turn
    State state = State::kIdle;
    TvlCounters counters;
  };
  using TvlList = IndexList<TvlKicks, &TvlKicks::link>;
  using CoveredList = IndexList<TvlKicks, &TvlKicks::covered>;

  TvlList& list_of(State state) { return lists_[static_cast<std::size_t>(state)]; }
  const TvlList& list_of(State state) const { return lists_[static_cast<std::size_t>(state)]; }
  void append(TvlId tvl, PcbId pcb);
  void begin_turn(std::uint32_t index, std::uint32_t weight);
  bool first_in_turn(std::uint32_t& index);
  void to_end_of_round(std::uint32_t index);
  void leave(std::uint32_t index);
  void enter(std::uint32_t index, State state);
  void wait(std::uint32_t index, const Quota& lacking, const Waits& states);
  void own_came_back(std::uint32_t index, const Quota& quota, const Waits& states);
  bool can_wake(State state) const;
  bool can_wake_any() const { return waiting_ != 0 && some_can_wake(); }
  bool some_can_wake() const;
  void wake();
  OptionalPcb start_next();
  OptionalPcb start_behind();
  PcbId start(std::uint32_t index);
  PcbId take_first(std::uint32_t index);
  bool heeds() const { return minimums_ != nullptr && minimums_->any(); }
  void cover(std::uint32_t index);
  void empty(std::uint32_t index);

  TvlTable& table_;
  std::vector<TvlKicks> tvls_;
  std::vector<Node> nodes_;                                             ///< by PcbId
  std::array<TvlList, static_cast<std::size_t>(State::kCount)> lists_;  ///< by state
  std::uint32_t waiting_ = 0;                                           ///< TVLs that lack a credit
  const MinimumRates* minimums_;
  CoveredList covered_;
};

}  // namespace softhca::schedule
