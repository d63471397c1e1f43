// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/object_limits.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace softhca::configuration {
namespace {

constexpr std::uint64_t kOwnMappings = 8192;
constexpr std::uint64_t kOwnDescriptors = 256;
// If the system has no limit: fs.nr_open of most systems.
constexpr std::uint64_t kMostDescriptors = 1 << 20;

/// Returns `total` less `own`. If the total is small, the daemon and its tenants get half each.
std::uint64_t less(std::uint64_t total, std::uint64_t own) {
  return total - std::min(own, total / 2);
}

}  // namespace

std::uint64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long bytes = ::sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t kUnknown = std::uint64_t{1} << 30;
  return pages > 0 && bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes)
             : kUnknown;
}

std::uint64_t machine_mappings() {
  std::uint64_t most = 65530;  // the kernel's default
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  return less(most, kOwnMappings);
}

std::uint64_t machine_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return less(1024, kOwnDescriptors);
  return less(std::min<std::uint64_t>(limit.rlim_max, kMostDescriptors), kOwnDescriptors);
}

}  // namespace softhca::configuration
