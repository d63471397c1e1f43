// Turns at the engine's time: queue pairs with work, in start-time fair order by what their turns
// cost (schedule/run_queue.hpp), and how much is done before others have theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/engine/clock.hpp"
#include "daemon/engine/queue_pair.hpp"
#include "daemon/engine/session.hpp"
#include "daemon/schedule/run_queue.hpp"

namespace softhca::engine {

/// How much is done in a poll step, in cost units (costs.hpp) unless said otherwise. A step is what
/// a command that comes meanwhile has to wait for, so steps are short when tenants compete; long
/// ones make larger bursts.
struct Budget {
  std::uint64_t runs = 0;     ///< of queue pairs that have work
  unsigned packets = 0;       ///< packets of a queue pair in a row
  std::uint32_t bytes = 0;    ///< of a queue pair in a row, to a peer in this daemon
  std::uint64_t ingress = 0;  ///< for taking in from VCBs, and for fetching
  std::uint64_t turn = 0;     ///< part of it, for one process or send queue in a row
  std::size_t starts = 0;     ///< commands
};

inline constexpr Budget kAlone{.runs = 512 << 10,
                               .packets = 32,
                               .bytes = 128 << 10,
                               .ingress = 128 << 10,
                               .turn = 32 << 10,
                               .starts = 64};
inline constexpr Budget kContended{.runs = 128 << 10,
                                   .packets = 8,
                                   .bytes = 16 << 10,
                                   .ingress = 32 << 10,
                                   .turn = 8 << 10,
                                   .starts = 64};
/// For when one tenant asks for little beside others that ask for much: it waits for one copy of
/// this size at most, since the processes are looked at after each queue pair.
inline constexpr Budget kSparse{.runs = 64 << 10,
                                .packets = 1,
                                .bytes = 4 << 10,
                                .ingress = 8 << 10,
                                .turn = 4 << 10,
                                .starts = 16};

class CpuScheduler {
 public:
  /// Packets for a class defer its turns by at most this much: otherwise a flood from outside would
  /// keep it from answering.
  static constexpr std::uint64_t kReceiveDebt = 1 << 20;

  CpuScheduler(const StepClock& clock, std::uint32_t queue_pairs, std::uint16_t tenants,
               std::uint16_t classes);

  // --- work done
  /// Work done since the engine began, in cost units.
  std::uint64_t done() const { return done_; }
  /// Work in the turn of a queue pair; finished() charges it.
  void add(std::uint64_t cost) { done_ += cost; }
  /// Work for a session's tenant outside the turns of queue pairs.
  void charge(const Session& session, std::uint64_t cost);
  /// A packet for a queue pair. Its peer decides when it comes, so it waits for no turn; later
  /// turns wait for it.
  void charge_packet(const QueuePair& qp, std::size_t payload);
  /// May more be taken in for this class? A class that has had more than its share lately waits for
  /// the others.
  bool may_take_in(QosClassId qos_class) const {
    return ready_.may_begin(qos_class, budget_->ingress);
  }

  // --- turns
  void make_ready(const QueuePair& qp) { ready_.push(qp.slot, qp.qos_class); }
  /// The queue pair goes to the error state in its next turn, which comes soon. `cause` is static
  /// text.
  void fail_later(QueuePair& qp, const char* cause);
  void remove(const QueuePair& qp) { ready_.remove(qp.slot); }
  bool has_work() const { return !ready_.empty(); }
  /// Slot of the queue pair whose turn begins; none: no queue pair has work. finished() is to
  /// follow.
  std::optional<std::uint32_t> begin();
  /// `more`: the queue pair has more to do.
  void finished(const QueuePair& qp, bool more);

  // --- competition
  const Budget& budget() const { return *budget_; }
  /// To be called at the beginning of a step; chooses by who competed lately.
  void choose_budget();
  /// A QoS class has its turn in `order`. If others wait for theirs, they compete with it; if it
  /// overtook them, it asks for little, unless it `left_much`. False: nobody waits.
  bool note_competition(QosClassId qos_class, const schedule::RunQueue& order, bool left_much);
  bool contended(QosClassId qos_class) const { return ready_.contended(qos_class); }
  /// The order of turns, to join classes and set their weights.
  schedule::RunQueue& order() { return ready_; }
  const schedule::RunQueue& order() const { return ready_; }

 private:
  const StepClock& clock_;
  schedule::RunQueue ready_;
  const Budget* budget_ = &kAlone;
  std::uint64_t done_ = 0;
  std::uint64_t turn_began_ = 0;
  Time contended_until_{};  ///< tenants compete for the engine
  Time sparse_until_{};     ///< and one of them asks for little
};

}  // namespace softhca::engine
