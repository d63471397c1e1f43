// SPDX-License-Identifier: Apache-2.0

// The command line of softhca-run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run_places.hpp"

namespace softhca::cli {

/// The exit code if softhca-run itself fails: as env, nice and timeout have it.
inline constexpr int kRunFailed = 125;

/// A fault of the packets between two private daemons.
struct LinkFault {
  std::string kind;  ///< as the daemon's method fault.add names it
  double probability;

  bool operator==(const LinkFault&) const = default;
};

/// What --daemon starts.
struct PrivateDaemons {
  unsigned hosts = 1;
  unsigned tenants = 2;       ///< of one host; two hosts have one tenant each
  std::string configuration;  ///< a file; empty: softhca-run writes one for each daemon
  std::vector<LinkFault> faults;
  std::uint64_t seed = 1;  ///< of all faults
};
/// Tenants a, b, c and so on.
inline constexpr unsigned kMostPrivateTenants = 26;

/// What --guest runs: a virtual machine.
struct GuestMachine {
  bool is_given = false;
  std::string channel;  ///< where the guest connects; empty: by an inherited descriptor
  bool seal = true;     ///< the daemon's region, when the machine has mapped it
};

struct RunOptions {
  std::string tenant;
  std::string level;
  std::string runtime_directory;
  bool with_daemon = false;
  PrivateDaemons daemons;
  GuestMachine guest;
  std::vector<std::string> command;
};

/// Returns the probability that `text` gives: "1%", "0.01". A number of 1 or more needs the percent
/// sign.
Found<double> parse_probability(const std::string& text);

/// Parses the command line. Prints the help or the version, and ends the program, if they are asked
/// for, and ends it with kRunFailed after an option that does not exist.
Found<RunOptions> parse_run_options(int argc, char** argv);

}  // namespace softhca::cli
