// SPDX-License-Identifier: Apache-2.0

// A thread's sign of life, and what it works on, in memory that its supervisor reads from another
// process.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace softhca {

/// What a thread works on, in one word. It means the same to the next adapter.
class Subject {
 public:
  enum class Kind : std::uint8_t {
    kNothing,
    kQueuePair,   ///< by number
    kSession,     ///< by the number of the session
    kConnection,  ///< of a process: the session or channel, by the number of the kept socket
    kPort,        ///< by its place
  };

  constexpr Subject() = default;
  constexpr Subject(Kind kind, std::uint64_t number)
      : word_(std::uint64_t{static_cast<std::uint8_t>(kind)} << kShift | number) {}
  static constexpr Subject of_word(std::uint64_t word) {
    Subject subject;
    subject.word_ = word;
    return subject;
  }

  constexpr Kind kind() const { return static_cast<Kind>(word_ >> kShift); }
  constexpr std::uint64_t number() const { return word_ & ((std::uint64_t{1} << kShift) - 1); }
  constexpr std::uint64_t word() const { return word_; }
  bool operator==(const Subject&) const = default;

 private:
  static constexpr unsigned kShift = 56;
  std::uint64_t word_ = 0;
};

/// The signals of a thread's own faults. A thread that blocks them ends the process without a
/// handler.
inline constexpr std::array kFaultSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

struct alignas(64) Pulse {
  std::atomic<std::uint64_t> turns;  ///< of the thread's loop; the thread alone adds to it
  std::atomic<std::int32_t> thread;  ///< its thread id; 0: it does not run
  /// 1: it sleeps until there is something to do, and may do so for any time.
  std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint64_t> subject;  ///< what it works on
  std::atomic<std::uint32_t> fault;    ///< 1: a signal of this thread's own fault ends the process

  /// The calling thread begins to give signs of life.
  void begin() { thread.store(static_cast<std::int32_t>(::syscall(SYS_gettid))); }
  void end() { thread.store(0); }
  void work_on(Subject on) { subject.store(on.word(), std::memory_order_relaxed); }
  void beat() { turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void fall_asleep() { asleep.store(1, std::memory_order_relaxed); }
  void wake_up() {
    beat();
    asleep.store(0, std::memory_order_relaxed);
  }
};

/// Names what the thread works on, as long as it lives. `pulse`: null for none.
class WorkingOn {
 public:
  WorkingOn(Pulse* pulse, Subject subject) : pulse_(pulse) {
    if (pulse_ != nullptr) pulse_->work_on(subject);
  }
  ~WorkingOn() {
    if (pulse_ != nullptr) pulse_->work_on({});
  }
  WorkingOn(const WorkingOn&) = delete;
  WorkingOn& operator=(const WorkingOn&) = delete;

 private:
  Pulse* const pulse_;
};

}  // namespace softhca
