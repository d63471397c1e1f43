// SPDX-License-Identifier: Apache-2.0

// softhca-run --guest: runs the monitor of a virtual machine, and is the relay between the machine
// and the daemon.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/run/run_options.hpp"

namespace softhca::cli {

/// What the words {region}, {bytes} and {channel} in a command stand for.
struct GuestWords {
  int region = -1;  ///< descriptor
  std::uint64_t bytes = 0;
  int channel = -1;  ///< descriptor
};

/// Returns the command with these words replaced.
std::vector<std::string> command_of_guest(std::vector<std::string> command,
                                          const GuestWords& words);

/// Runs the command of the options until it ends. Returns its exit code, or 125.
int run_guest(const RunOptions& options, const std::filesystem::path& runtime_directory,
              const std::string& tenant);

}  // namespace softhca::cli
