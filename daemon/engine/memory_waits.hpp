// Queue pairs that wait for memory which a process reaches for the engine (MemoryProxy). The engine
// does not wait for such an access. The step of the queue pair that needs it ends with
// Verdict::kBusy, and the queue pair takes the same step again once the access is done.
//
// The accesses that the step has had made are remembered in order (its *log*), with what was read.
// The repetition finds them done, and comes to the next one, or to the end of the step. So whatever
// a step changes beside that memory, it changes after its last access, or in a way that bears
// repetition.
//
// A queue pair has two sides, which wait independently: what it sends, and what it takes in.
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
#include "daemon/engine/counters.hpp"
#include "daemon/engine/waiting_packets.hpp"

namespace softhca::engine {

class MemoryProxy;

class MemoryWaits {
 public:
  enum class Side : std::uint8_t { kSend, kReceive };

  explicit MemoryWaits(std::uint32_t queue_pairs)
      : queue_pairs_(queue_pairs), packets_(queue_pairs) {}

  /// Before the first proxy is made. Allocates.
  void open();

  /// For its lifetime, accesses are those of a step of the queue pair in this slot. `id`: differs
  /// from that of the step before, and is the same when the step is repeated. Without one the
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
  /// The step at hand cannot be taken yet for another reason, and is to be repeated. REQUIRES: it
  /// has had nothing done. False: there is no step.
  bool put_off() { return is_in_step() && wait_for_room() == Next::kWait; }
  /// True if what is at hand is a step, whose accesses the engine does not wait for.
  bool is_in_step() const { return waiter_ != kNobody; }
  /// True: the queue pair is in the middle of sending something by steps.
  bool is_sending(std::uint32_t slot) const {
    return is_open() &&
           (waiters_[waiter_of(slot, Side::kSend)].log != kNoLog || waits(slot, Side::kSend));
  }
  /// A turn of the queue pair has ended, in which the step that it sends by had its chance to be
  /// repeated: what it does not want any more makes room for others.
  void end_turn(std::uint32_t slot) {
    if (is_open()) [[unlikely]]
      drop_done(waiter_of(slot, Side::kSend));
  }
  /// A new message begins: nothing that was done for another one is for it.
  void begin_message(std::uint32_t slot) {
    if (is_open()) [[unlikely]]
      forget_side(waiter_of(slot, Side::kSend));
  }
  /// What the queue pair is waiting for is not for it any more, and no packet waits for it.
  void forget(Tenant& tenant, std::uint32_t slot);
  /// What has come for queue pairs, behind a packet that is taken in by a step.
  WaitingPackets& packets() { return packets_; }
  /// Waits until nothing is under way that writes to memory of the tenant that `of` counts for, or,
  /// with `all`, nothing at all; the tenant may go then.
  void settle(const MemoryCounters& of, bool all = false);

  /// Calls `wake(slot)` for queue pairs whose step is to be repeated. To be called in each poll
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
  /// Accesses are under way: only polling tells when they are done.
  bool has_work() const { return !busy_.empty() || !ready_.empty() || !for_room_.empty(); }

  // --- for MemoryProxy
  static constexpr std::uint32_t kNobody = 0xffffffff;
  /// What tells an access from others.
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
  /// The next access of the step at hand.
  Next next(const MemoryProxy& proxy, const What& what);
  /// These return the result of the access for which next() returned kDone.
  Verdict verdict() const { return found_->verdict; }
  std::uint32_t place() const { return found_->place; }
  /// Records the access that the step begins now, in this place of the proxy. Returns the number
  /// of the waiter, or kNobody if there is no room for the access.
  std::uint32_t begin(std::shared_ptr<MemoryProxy> proxy, const What& what, std::uint32_t place);
  /// There is no room for the access of the step: kWait, or kNow.
  Next wait_for_room();
  /// The access in this place is done. True: the bytes of the place are still wanted, until
  /// MemoryProxy::give_back().
  bool completed(std::uint32_t waiter, Verdict verdict, bool keeps);
  /// The proxy has accesses under way. It is listed once, until MemoryProxy::collect() says that it
  /// has none.
  void add_busy(std::shared_ptr<MemoryProxy> proxy) { busy_.push_back(std::move(proxy)); }

 private:
  static constexpr std::uint32_t kNoPlace = 0xffffffff;
  static constexpr std::uint16_t kNoLog = 0xffff;
  /// Steps that have accesses, and accesses of a step. Beyond that they wait for room, and the
  /// engine for the access.
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
  std::vector<std::shared_ptr<MemoryProxy>> busy_;  ///< have accesses under way
  std::vector<std::uint32_t> ready_;                ///< slots to be woken
  IndexList<Waiter, &Waiter::for_room> for_room_;   ///< of waiters_, the oldest first
  bool has_room_ = false;                           ///< something was given back

  // The step at hand.
  std::uint32_t waiter_ = kNobody;
  std::uint64_t step_ = 0;
  std::size_t at_ = 0;  ///< accesses of it that have been found done
  bool busy_step_ = false;
  const Entry* found_ = nullptr;
};

}  // namespace softhca::engine
