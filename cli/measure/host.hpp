// SPDX-License-Identifier: Apache-2.0

// The machine on which softhcactl measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softhca::cli {

struct Host {
  double cores = 1;               ///< that this process may use; a cgroup may allow a part of one
  std::uint64_t memory = 0;       ///< bytes, at most those of its cgroup
  std::uint64_t descriptors = 0;  ///< hard limit of open files of this process
  std::uint64_t mappings = 0;     ///< vm.max_map_count: mappings that a process may have
  double load = 0;                ///< programs that wanted a core in the last minute
  std::optional<unsigned> isolated_core;  ///< the first one, of isolcpus
  /// What makes figures worse than they could be, a sentence each.
  std::vector<std::string> warnings;
};

/// Reads /proc and /sys. Takes half a second, to see which daemons are busy.
Host read_host();

}  // namespace softhca::cli
