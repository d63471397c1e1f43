// SPDX-License-Identifier: Apache-2.0

// Runs softhca-bench, each time with daemons of its own.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/admin_client.hpp"

namespace softhca::cli {

class BenchRuns {
 public:
  /// Finds the programs. From here on, a signal ends the run in progress first, and then this
  /// process. Throws CommandError.
  BenchRuns();
  ~BenchRuns();
  BenchRuns(const BenchRuns&) = delete;
  BenchRuns& operator=(const BenchRuns&) = delete;

  /// What softhca-run --daemon starts, and the sides of softhca-bench in it.
  struct Daemons {
    std::vector<std::string> options;  ///< of softhca-run
    std::string configuration;         ///< the text; empty: as the options say
    std::string server;                ///< "A": that tenant or host; empty: as the client
    std::vector<std::string> clients;  ///< "B", "C"; empty: one, of the first tenant
  };
  /// Runs softhca-bench with these arguments. Returns the objects that it prints. Throws
  /// CommandError with what it reported.
  std::vector<Json> run(const Daemons& daemons, const std::vector<std::string>& arguments);

 private:
  struct Output {
    std::string text, errors;
    int status;
  };
  Output collect(const std::vector<std::string>& command);
  /// Ends the process with its children, as the signal demands.
  [[noreturn]] void end(pid_t child, int signal);

  std::filesystem::path softhca_run_, softhca_bench_;
  sigset_t before_{};
  int signals_ = -1;
};

}  // namespace softhca::cli
