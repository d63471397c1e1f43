// SPDX-License-Identifier: Apache-2.0

// softhca-run --daemon, as its caller sees it: it passes on signals and the exit code.
#pragma once

#include <span>

#include "cli/run/run_options.hpp"

namespace softhca::cli {

/// Runs the command of the options with daemons of its own. Returns its exit code, or 125.
/// `command_line`: the memory of argv, where ps(1) reads the name of a process.
int run_with_daemons(const RunOptions& options, const Libraries& libraries,
                     std::span<char> command_line);

}  // namespace softhca::cli
