// SPDX-License-Identifier: Apache-2.0

#include "cli/measure/host.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace softhca::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kObservation = std::chrono::milliseconds(500);
// Parts of a core, and of all cores, that are worth a warning.
constexpr double kBusyDaemon = 0.05;
constexpr double kBusyHost = 0.25;

/// Returns the folders of this process's cgroup and those above it.
std::vector<fs::path> cgroup_folders() {
  std::ifstream file("/proc/self/cgroup");
  std::vector<fs::path> folders;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    const fs::path root = "/sys/fs/cgroup";
    for (fs::path path = line.substr(4);; path = path.parent_path()) {
      folders.push_back(root / path);
      if (path.empty()) break;
    }
  }
  return folders;
}

double cores_of_process() {
  cpu_set_t set;
  double cores = 1;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  for (const fs::path& folder : cgroup_folders()) {
    double quota = 0, period = 0;  // "max 100000": not limited
    if (std::ifstream file(folder / "cpu.max"); file >> quota >> period && period > 0)
      cores = std::min(cores, quota / period);
  }
  return cores;
}

std::uint64_t memory_of_process() {
  auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const fs::path& folder : cgroup_folders()) {
    std::uint64_t limit = 0;
    if (std::ifstream file(folder / "memory.max"); file >> limit) memory = std::min(memory, limit);
  }
  return memory;
}

std::uint64_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 1024;
}

std::uint64_t mapping_limit() {
  std::uint64_t limit = 65530;  // the kernel's default
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit;
}

/// Returns the first core of a list such as "2-5,7".
std::optional<unsigned> isolated_core() {
  std::ifstream file("/sys/devices/system/cpu/isolated");
  unsigned core = 0;
  if (file >> core) return core;
  return std::nullopt;
}

/// Returns the processor time of the adapters of all daemons, in seconds, by the main process of
/// each.
std::map<int, double> daemon_times() {
  std::map<int, double> times;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    std::string line;
    int process = 0;
    if (std::atoi(entry->path().filename().c_str()) <= 0 ||
        !std::getline(std::ifstream(entry->path() / "stat"), line))
      continue;
    unsigned long user = 0, system = 0;
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos || line.find("(softhca-adapter)") == std::string::npos ||
        std::sscanf(line.c_str() + name_end, ") %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu",
                    &process, &user, &system) != 3)
      continue;
    times[process] =
        static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  return times;
}

std::vector<std::string> busy_daemons() {
  const std::map<int, double> before = daemon_times();
  if (before.empty()) return {};
  std::this_thread::sleep_for(kObservation);
  std::vector<std::string> warnings;
  for (const auto& [process, time] : daemon_times()) {
    const auto found = before.find(process);
    if (found == before.end()) continue;
    const double share =
        (time - found->second) / std::chrono::duration<double>(kObservation).count();
    if (share < kBusyDaemon) continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "softhcad, process %d, uses %.0f %% of a core: the figures are lower than on an "
                  "idle host",
                  process, 100 * share);
    warnings.emplace_back(text);
  }
  return warnings;
}

}  // namespace

Host read_host() {
  Host host{.cores = cores_of_process(),
            .memory = memory_of_process(),
            .descriptors = descriptor_limit(),
            .mappings = mapping_limit(),
            .load = 0,
            .isolated_core = isolated_core(),
            .warnings = busy_daemons()};
  if (::getloadavg(&host.load, 1) == 1 && host.load > kBusyHost * host.cores) {
    char text[160];
    std::snprintf(
        text, sizeof text,
        "the load average is %.1f on %.4g cores: the figures are lower than on an idle host",
        host.load, host.cores);
    host.warnings.emplace_back(text);
  }
  return host;
}

}  // namespace softhca::cli
