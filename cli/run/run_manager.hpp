// SPDX-License-Identifier: Apache-2.0

// The process that softhca-run --daemon puts between itself and the program. It is the parent of
// the daemons and of the program, and ends them when softhca-run is gone, however that ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cli/run/run_daemon.hpp"

namespace softhca::cli {

/// A signal that softhca-run has received, as a byte that it writes to the manager. `by_terminal`:
/// the terminal has sent it to the program, too.
struct RelayedSignal {
  int number;
  bool by_terminal;

  unsigned char byte() const { return static_cast<unsigned char>(number | (by_terminal << 7)); }
  static RelayedSignal of(unsigned char byte) { return {byte & 0x7f, (byte & 0x80) != 0}; }
};

/// What the manager needs of softhca-run.
struct ManagerPlan {
  RunOptions options;
  std::filesystem::path softhcad;  ///< the daemon's program
  std::filesystem::path self;      ///< softhca-run
  Libraries libraries;
  int relay;        ///< socket of relayed signals; its end tells that softhca-run is gone. The
                    ///< manager writes the path of its folder to it
  sigset_t mask;    ///< signal mask of the program
  pid_t group = 0;  ///< process group of softhca-run, in which the program runs
};

class Manager {
 public:
  explicit Manager(ManagerPlan plan);
  /// Runs the program with its daemons, and removes everything. Returns the exit code.
  int run();

 private:
  int serve();
  void make_folder();
  std::string start_daemons();
  std::string start_hosts();
  std::string await_ready();
  void find_tenants();
  const PrivateTenant* program_tenant() const;
  void start_program(const PrivateTenant& tenant);
  int run_program(const PrivateTenant& tenant, pid_t manager) const;
  void report();

  /// Handles what happens next, within `most`.
  void step(std::chrono::milliseconds most);
  void step_until(const std::function<bool()>& done, std::chrono::seconds most);
  void take_signals();
  void take_ended();
  bool stopped() const { return gone_ || interrupted_ != 0; }
  bool all_run() const;

  ManagerPlan plan_;
  std::filesystem::path folder_;  ///< for all files of this run
  int children_ = -1;             ///< signalfd of SIGCHLD
  std::vector<std::unique_ptr<PrivateDaemon>> daemons_;
  std::vector<PrivateTenant> tenants_;
  pid_t program_ = -1;
  std::optional<int> program_end_;
  bool gone_ = false;     ///< softhca-run has ended
  bool relayed_ = false;  ///< a signal has come, so that it is known why the program ends
  int interrupted_ = 0;   ///< a signal that came before the program was started
};

}  // namespace softhca::cli
