// SPDX-License-Identifier: Apache-2.0

// Shares the engine's time. Queue pairs with work have turns, in start-time fair order by how long
// their turns take (run_queue.hpp). A budget bounds the work before others have theirs.
//
// Work is counted in cost units as it is done (costs.hpp), which bounds a poll step. Tenants share
// time. While they compete, the engine reads the clock at the end of each piece of work. It charges
// the time since the last reading for the work counted meanwhile, in proportion. Without
// competition it reads the clock once in a step, which leaves the time to the work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/session.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/engine/turns/work_clock.hpp"
#include "daemon/qos/schedule/run_queue.hpp"

namespace softhca::engine {

/// How much is done in a poll step, in cost units (costs.hpp) unless said otherwise. A command that
/// comes during a step waits for the end of it, so steps are short while tenants compete. Long
/// steps make larger bursts.
struct Budget {
  std::uint64_t runs = 0;    ///< of queue pairs that have work
  unsigned packets = 0;      ///< packets of a queue pair in a row
  std::uint32_t bytes = 0;   ///< of a queue pair in a row, to a peer in this daemon
  std::uint64_t intake = 0;  ///< to take in from VCBs, and to fetch
  std::uint64_t turn = 0;    ///< part of `intake`, for one process or send queue in a row
  std::size_t starts = 0;    ///< commands
};

inline constexpr Budget kAlone{.runs = 512 << 10,
                               .packets = 32,
                               .bytes = 128 << 10,
                               .intake = 128 << 10,
                               .turn = 32 << 10,
                               .starts = 64};
inline constexpr Budget kContended{.runs = 128 << 10,
                                   .packets = 8,
                                   .bytes = 16 << 10,
                                   .intake = 32 << 10,
                                   .turn = 8 << 10,
                                   .starts = 64};
/// For a tenant that asks for little beside others that ask for much. It waits for one copy of this
/// size at most, since the engine polls the processes after each queue pair.
inline constexpr Budget kSparse{.runs = 64 << 10,
                                .packets = 1,
                                .bytes = 4 << 10,
                                .intake = 8 << 10,
                                .turn = 4 << 10,
                                .starts = 16};

class CpuScheduler {
 public:
  /// Received packets defer the turns of a class by at most this much. Otherwise a flood from
  /// outside would keep the class from answering.
  static constexpr std::uint64_t kReceiveDebt = 1 << 20;

  CpuScheduler(const StepClock& clock, std::uint32_t queue_pairs, std::uint16_t tenants,
               std::uint16_t classes, std::uint16_t tvls = 0);
  /// `clock` (null: none) outlives its use. Without a clock, work takes the time that it counts as.
  void measure_by(WorkClock* clock);

  // --- work done
  /// Returns the work done since the engine began, in cost units. Work that takes far longer than
  /// its cost counts for more, since steps would be long otherwise.
  std::uint64_t done() const { return done_; }
  /// Returns the time spent in poll steps since the engine began, in cost units. It never
  /// decreases, although the current work may count as more than it turns out to take.
  std::uint64_t spent() { return told_ = std::max(told_, spent_ + (done_ - measured_)); }
  /// Counts work in the turn of a queue pair; finished() charges it.
  void add(std::uint64_t cost) { done_ += cost; }
  /// Counts bytes that the turn has moved, as minimum rates count them (beyond_bytes()).
  void moved(std::uint64_t bytes) { moved_ += bytes; }
  /// Charges work for a session's tenant outside the turns of queue pairs.
  void charge(const Session& session, std::uint64_t cost) {
    charge(*session.tenant, session.qos_class, cost);
  }
  /// Does the same for a queue pair, which may be of another level than its session.
  void charge(const QueuePair& qp, std::uint64_t cost) { charge(*qp.tenant, qp.qos_class, cost); }
  /// `first`: the work follows from turns that went before others. It defers no turn.
  void charge(Tenant& tenant, QosClassId qos_class, std::uint64_t cost, bool first = false);
  /// Charges work of another thread for the class, which defers its turns here.
  void charge_elsewhere(QosClassId qos_class, Duration taken) {
    charge_turns(qos_class, static_cast<std::uint64_t>(taken.count()) * kUnitsPerNanosecond);
  }
  /// Charges a packet for a queue pair. The peer decides when it comes, so it waits for no turn,
  /// but it defers later turns.
  void charge_packet(Tenant& tenant, QosClassId qos_class, std::size_t payload);

  // --- the time it takes
  void begin_step() {
    minimums_.begin_step(clock_.now);
    if (work_clock_ != nullptr) work_clock_->begin_step(clock_.now);
  }
  void end_step() {
    if (charged_ != 0) divide(0);
  }
  /// Begins a piece of work for the class. Work for the same class just before is measured with it.
  void begin_work(QosClassId qos_class) {
    if (charged_classes_.size() != 1 || charged_classes_.front() != qos_class) end_work();
  }
  /// Ends a piece of work: the time since the last one goes to the charges, if there are any.
  void end_work() {
    if (measures_each_ && charged_ != 0) divide(0);
  }
  /// Does the same. Without charges, the time goes to no tenant.
  void end_any_work() {
    if (measures_each_) divide(0);
  }

  // --- turns
  /// True if more may be taken in for this class. A class that has had more than its share lately
  /// waits for the others, unless it is behind its minimum rate.
  bool may_take_in(QosClassId qos_class) const {
    return ready_.may_begin(qos_class, budget_->intake) || is_behind(qos_class);
  }
  void make_ready(const QueuePair& qp) { ready_.push(qp.slot, qp.qos_class, qp.sq.tvl); }
  /// Moves the queue pair to the error state in its next turn, which comes soon.
  void fail_later(QueuePair& qp, QpFailure cause);
  void remove(const QueuePair& qp) { ready_.remove(qp.slot); }
  bool has_work() const { return !ready_.empty() || !failing.empty(); }
  /// Begins the turn of a queue pair and returns its slot. Returns nothing if no queue pair has
  /// work. finished() is to follow.
  std::optional<std::uint32_t> begin();
  /// Ends the turn. `more`: the queue pair has more to do.
  void finished(const QueuePair& qp, bool more);

  // --- competition
  const Budget& budget() const { return *budget_; }
  /// Chooses the budget by the competition of late. To be called at the beginning of a step.
  void choose_budget();
  /// Notes that a QoS class has its turn in `order`. Others that wait for theirs compete with it.
  /// If it overtook them it asks for little, unless it `left_much`. Returns false if no other class
  /// waits.
  bool note_competition(QosClassId qos_class, const schedule::RunQueue& order, bool left_much);
  bool contended(QosClassId qos_class) const { return ready_.contended(qos_class); }
  /// True if classes have competed lately.
  bool competition() const { return budget_ != &kAlone; }
  std::size_t classes() const { return charges_.size(); }
  /// The order of turns, to add classes and set their weights.
  schedule::RunQueue& order() { return ready_; }
  const schedule::RunQueue& order() const { return ready_; }
  /// Minimum rates, which go before shares of time.
  schedule::MinimumRates& minimums() { return minimums_; }
  const schedule::MinimumRates& minimums() const { return minimums_; }

  /// Sessions with objects that are to be checked (failed_sessions.hpp).
  LinkedList<Session, &Session::of_failing> failing;

 private:
  /// Work for a class since the clock was last read, in cost units.
  struct Charges {
    Tenant* tenant = nullptr;  ///< null: it had no work
    std::uint64_t work = 0;
    std::uint64_t first = 0;    ///< for its turns that went before others
    std::uint64_t packets = 0;  ///< packets for its queue pairs
    std::uint64_t turns = 0;    ///< turns of its queue pairs, which are charged already
  };

  void note(Tenant& tenant, QosClassId qos_class, std::uint64_t Charges::*kind,
            std::uint64_t cost) {
    Charges& charges = charges_[qos_class.value];
    if (charges.tenant == nullptr) {
      charges.tenant = &tenant;
      charged_classes_.push_back(qos_class);
    }
    charges.*kind += cost;
    charged_ += cost;
  }
  bool is_behind(QosClassId qos_class) const {
    return minimums_.any() && minimums_.behind(qos_class);
  }
  /// Defers the turns of the class, unless it is behind its minimum rate.
  void charge_turns(QosClassId qos_class, std::uint64_t cost) {
    if (is_behind(qos_class)) [[unlikely]]
      return minimums_.worked(qos_class, cost);
    ready_.charge(qos_class, cost);
  }
  void charge_packets(QosClassId qos_class, std::uint64_t cost);
  void end_turn(const QueuePair& qp, std::uint64_t cost, bool more);
  std::uint64_t measure(std::uint64_t counted);
  std::uint64_t divide(std::uint64_t own);

  const StepClock& clock_;
  WorkClock* work_clock_ = nullptr;
  bool measures_each_ = false;    ///< measures each piece of work, not a whole step
  std::vector<Charges> charges_;  ///< by class
  std::vector<QosClassId> charged_classes_;
  std::uint64_t charged_ = 0;   ///< sum of all charges
  std::uint64_t spent_ = 0;     ///< by the clock
  std::uint64_t measured_ = 0;  ///< work done when the clock was last read
  std::uint64_t told_ = 0;      ///< what spent() last returned
  schedule::MinimumRates minimums_;
  schedule::RunQueue ready_;
  std::uint64_t moved_ = 0;  ///< bytes, in the turn at hand
  const Budget* budget_ = &kAlone;
  std::uint64_t done_ = 0;
  std::uint64_t turn_began_ = 0;  ///< done_ when the turn began, and separate charges since
  Time contended_until_{};        ///< tenants compete for the engine until then
  Time sparse_until_{};           ///< and one of them asks for little
};

}  // namespace softhca::engine
