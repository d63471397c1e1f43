// SPDX-License-Identifier: Apache-2.0

// The keeper: the process that starts the adapter, holds what must outlive it, and starts the next
// one when it ends. One thread. It interprets nothing that a tenant or a peer sends, and touches no
// memory that it holds.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/keeper/handover.hpp"
#include "daemon/keeper/kept_table.hpp"
#include "daemon/keeper/thread_watch.hpp"

namespace softhca::keeper {

using Clock = std::chrono::steady_clock;

// Tell the operator, on standard error.
void report_warning(const std::string& text);
void report_failure(const std::string& text);  ///< also tells the service manager

/// A file with the code of an adapter. It stays the same when another file takes its path.
class Library {
 public:
  /// Returns nothing if this is not a file that can be read; `why` then tells the reason.
  static std::optional<Library> open(const std::string& path, std::string& why);
  /// Returns a path by which this process can load it: its own, if that is still this file. Beside
  /// it are the libraries that it needs.
  std::string loadable() const;
  const std::string& path() const { return path_; }

 private:
  std::string descriptor_path() const;

  std::string path_, real_path_;  ///< as given; without links
  UniqueFd file_;
};

class Keeper {
 public:
  /// `argv` is for the adapter.
  Keeper(Library library, int argc, char** argv);

  /// Runs until the adapter has ended for good. Returns the exit code of this process.
  int run();

 private:
  enum class Phase : std::uint8_t {
    kStarting,
    kServing,
    kRetiring,  ///< it was asked to retire
    kStopping,  ///< it was asked to end
  };

  // keeper.cpp
  void step();
  void take_signals();
  void upgrade_by_signal();
  void stop(int signal);
  void reap();
  void tick();
  void ended(int status);
  void retired();
  void replace(Cause cause);
  void crashed(Cause cause, int status);
  void find_culprit();
  void finish(int status);

  // keeper_calls.cpp
  void serve_calls();
  std::optional<int> serve(const Call& call, std::string_view text, UniqueFd fd, std::uint64_t& id);
  int begin_upgrade(std::string_view path);
  void take_verdict();
  void end_trial(std::string_view verdict);
  void drop_trial();
  void ready();
  void order(OrderKind kind, std::string_view text = {}) const;

  // keeper_start.cpp
  bool start(Cause cause);
  Handover handover_of(const std::vector<KeptEntry>& kept, Cause cause) const;
  [[noreturn]] void become_adapter(const Handover& handover) const;
  void start_trial();

  /// The process that serves, or is to serve.
  struct Adapter {
    pid_t process = -1;
    UniqueFd calls, orders;
    Cause cause = Cause::kStart;
    bool killed = false;       ///< as it hung
    bool stopped = false;      ///< by a signal
    unsigned stopped_for = 0;  ///< ticks
    Clock::time_point stopped_since{};
  };
  /// The library that an upgrade brings.
  struct Upgrade {
    std::optional<Library> library;
    pid_t trial = -1;         ///< a process that tries if it fits
    UniqueFd verdict;         ///< what that process says
    Clock::time_point due{};  ///< it must have said it by then
  };

  Library library_;              ///< of the adapter
  const std::string installed_;  ///< path that a plain upgrade loads
  const int argc_;
  char** const argv_;
  Shared* shared_ = nullptr;
  KeptTable kept_;
  UniqueFd signals_;
  Adapter adapter_;
  Upgrade upgrade_;  ///< while a new library starts, it has the one before
  Phase phase_ = Phase::kStarting;
  bool has_served_ = false;  ///< some adapter has

  Clock::time_point down_since_{};  ///< no adapter serves since then
  Clock::time_point due_{};         ///< by then the phase must have ended
  Clock::time_point next_tick_{};
  std::chrono::microseconds watchdog_{};  ///< interval of the service manager; 0: none
  Clock::time_point next_watchdog_{};
  std::deque<Clock::time_point> crashes_;  ///< the latest
  ThreadWatch engine_watch_, control_watch_;
  int stop_signal_ = 0;  ///< that the adapter gets which serves next; 0: none
  std::optional<int> exit_code_;
};

}  // namespace softhca::keeper
