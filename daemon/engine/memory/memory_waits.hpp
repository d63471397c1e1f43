// SPDX-License-Identifier: Apache-2.0

// Queue pairs that wait for memory which a process reaches for the engine (MemoryProxy). The engine
// does not wait for such an access. The step of the queue pair that needs it ends with
// Verdict::kBusy, and the queue pair takes the same step again once the access is done.
//
// The *log* of a step has the accesses that were made for it, in order, with what was read. The
// repeated step finds them done, and comes to its next access or to its end. So a step changes
// anything beside that memory only after its last access, or in a way that bears repetition.
//
// A queue pair has two sides that wait independently: what it sends, and what it takes in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/base/verdict.hpp"
#include "daemon/engine/memory/waiting_packets.hpp"
#include "daemon/engine/records/counters.hpp"

namespace softhca::engine {

class MemoryProxy;

class MemoryWaits {
 public:
  enum class Side : std::uint8_t { kSend, kReceive };

  explicit MemoryWaits(std::uint32_t queue_pairs)
      : queue_pairs_(queue_pairs), packets_(queue_pairs) {}

  /// To be called before the first proxy is made. Allocates.
  void open();

  /// During its lifetime, accesses belong to a step of the queue pair in this slot. `id` differs
  /// from that of the step before, and is the same when the step is repeated. Without a Step the
  /// engine waits for its accesses.
  class Step {
   public:
    Step(MemoryWaits& waits, std::uint32_t slot, Side side, std::uint64_t id)
        : waits_(waits.is_open() ? &waits : nullptr) {
      if (waits_ != nullptr) [[unlikely]]
        waits_->begin_step(waiter_of(slot, side), id);
    }
    ~Step() {
      if (waits_ != nullptr) [[unlikely]]
        waits_->end_step();
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    MemoryWaits* waits_;
  };

  /// True if a step of this side is to be repeated, and not before it is woken.
  bool waits(std::uint32_t slot, Side side) const {
    return is_open() && waiters_[waiter_of(slot, side)].waits;
  }
  /// Postpones the current step, which cannot be taken yet for another reason, and is to be
  /// repeated. REQUIRES: no access was made for it. False: it is not in a step.
  bool put_off() { return is_in_step() && wait_for_room() == Next::kWait; }
  /// True if a step is in progress. The engine does not wait for the accesses of a step.
  bool is_in_step() const { return waiter_ != kNobody; }
  /// True if the queue pair has begun to send something by steps, and has not finished.
  bool is_sending(std::uint32_t slot) const {
    return is_open() &&
           (waiters_[waiter_of(slot, Side::kSend)].log != kNoLog || waits(slot, Side::kSend));
  }
  /// To be called when a turn of the queue pair has ended, in which its sending step could be
  /// repeated. Accesses that the step does not need any more make room for others.
  void end_turn(std::uint32_t slot) {
    if (is_open()) [[unlikely]]
      drop_done(waiter_of(slot, Side::kSend));
  }
  /// Begins a new message: drops the accesses that were made for another one.
  void begin_message(std::uint32_t slot) {
    if (is_open()) [[unlikely]]
      forget_side(waiter_of(slot, Side::kSend));
  }
  /// Drops what the queue pair waits for, and the packets that wait for it.
  void forget(Tenant& tenant, std::uint32_t slot);
  /// Packets for queue pairs: a step takes in the first, and the others wait behind it.
  WaitingPackets& packets() { return packets_; }
  /// Waits until no access in progress writes to memory of the tenant that `of` counts for. With
  /// `all`, waits until none is in progress; the tenant may be removed then.
  void settle(const MemoryCounters& of, bool all = false);
  /// Waits until no access is in progress.
  void settle_all();

  /// Calls `wake(slot)` for queue pairs that are to repeat their step. To be called in each poll
  /// step.
  template <class Wake>
  void release(Wake&& wake) {
    if (!has_work()) [[likely]]
      return;
    collect();
    while (!ready_.empty()) {
      const std::uint32_t slot = ready_.back();
      ready_.pop_back();
      wake(slot);
    }
  }
  /// True if accesses are in progress: only polling finds out when they are done.
  bool has_work() const { return !busy_.empty() || !ready_.empty() || !for_room_.empty(); }

  // --- for MemoryProxy
  static constexpr std::uint32_t kNobody = 0xffffffff;
  /// What distinguishes an access from others.
  struct What {
    std::uint64_t hash;  ///< of process, kind and ranges
    std::uint32_t bytes;
    bool repeats;  ///< it may be made twice
  };
  enum class Next : std::uint8_t {
    kNow,    ///< the engine has to wait for the access
    kBegin,  ///< it is new: begin() or wait_for_room() follows
    kWait,   ///< the step ends with kBusy
    kDone,   ///< it is done, see verdict() and place()
  };
  /// Returns what to do about the next access of the current step.
  Next next(const MemoryProxy& proxy, const What& what);
  /// These return the result of the access for which next() returned kDone.
  Verdict verdict() const { return found_->verdict; }
  std::uint32_t place() const { return found_->place; }
  /// Records the access that the step begins now, in this place of the proxy. Returns the number of
  /// the waiter, or kNobody if the access finds no room.
  std::uint32_t begin(std::shared_ptr<MemoryProxy> proxy, const What& what, std::uint32_t place);
  /// Makes the step wait, since its access finds no room: returns kWait, or kNow.
  Next wait_for_room();
  /// Ends the last access of the waiter. True: the bytes of its place are still needed, until
  /// MemoryProxy::give_back().
  bool completed(std::uint32_t waiter, Verdict verdict, bool keeps);
  /// Lists a proxy that has accesses in progress, once, until MemoryProxy::collect() finds none.
  void add_busy(std::shared_ptr<MemoryProxy> proxy) { busy_.push_back(std::move(proxy)); }

 private:
  static constexpr std::uint32_t kNoPlace = 0xffffffff;
  static constexpr std::uint16_t kNoLog = 0xffff;
  /// Most steps that have accesses, and most accesses of a step. Beyond these a step waits for
  /// room, and the engine waits for an access.
  static constexpr std::size_t kLogs = 512;
  static constexpr std::size_t kMost = 6;

  struct Entry {
    std::shared_ptr<MemoryProxy> proxy;
    What what{};
    std::uint32_t place = kNoPlace;
    bool done = false;
    Verdict verdict = Verdict::kOk;
  };
  struct Log {
    std::uint64_t step = 0;
    std::size_t count = 0;
    std::array<Entry, kMost> entries;

    bool is_pending() const { return count != 0 && !entries[count - 1].done; }
  };
  struct Waiter {
    std::uint16_t log = kNoLog;
    bool waits = false;
    IndexLink for_room;  ///< in for_room_
  };

  static std::uint32_t waiter_of(std::uint32_t slot, Side side) {
    return 2 * slot + static_cast<std::uint32_t>(side);
  }
  bool is_open() const { return !waiters_.empty(); }
  void begin_step(std::uint32_t waiter, std::uint64_t id);
  void end_step();
  Next wait();
  void collect();
  void drop(Waiter& waiter);
  void cut(Log& log, std::size_t from);
  void drop_done(std::uint32_t waiter);
  void forget_side(std::uint32_t waiter);
  void wake(std::uint32_t waiter);
  void wake_for_room();

  const std::uint32_t queue_pairs_;
  WaitingPackets packets_;
  std::vector<Waiter> waiters_;  ///< by queue pair and side
  std::vector<Log> logs_;
  std::vector<std::uint16_t> free_;                 ///< of logs_
  std::vector<std::shared_ptr<MemoryProxy>> busy_;  ///< have accesses in progress
  std::vector<std::uint32_t> ready_;                ///< slots to be woken
  IndexList<Waiter, &Waiter::for_room> for_room_;   ///< of waiters_, the oldest first
  bool has_room_ = false;                           ///< something was given back

  // The current step.
  std::uint32_t waiter_ = kNobody;
  std::uint64_t step_ = 0;
  std::size_t at_ = 0;  ///< accesses of it that have been found done
  bool busy_step_ = false;
  const Entry* found_ = nullptr;
};

}  // namespace softhca::engine
