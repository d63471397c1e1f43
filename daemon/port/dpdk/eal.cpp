// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/dpdk/eal.hpp"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace softhca::port {
namespace {

bool tried = false;
bool started = false;

/// Messages that need no attention. net_memif registers for secondary processes, which do not exist
/// here. A memif client without server logs that each second, but the port's link state reports it,
/// too.
constexpr std::array<std::string_view, 2> kHarmless = {"Failed to register mp action callback",
                                                       "Failed to connect socket"};

bool is_harmless(std::string_view line) {
  return std::any_of(kHarmless.begin(), kHarmless.end(),
                     [&](std::string_view h) { return line.find(h) != line.npos; });
}

/// A FILE for DPDK's log that passes each line to a function.
struct LogSink {
  std::function<void(std::string_view)> take;

  static ssize_t write(void* cookie, const char* text, std::size_t length) {
    std::string_view rest(text, length);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      if (!line.empty() && !is_harmless(line)) static_cast<LogSink*>(cookie)->take(line);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return static_cast<ssize_t>(length);
  }
};

void route_log(const EalOptions& options) {
  // Lives as long as the EAL, that is, the process.
  static LogSink sink;
  sink.take = options.log ? options.log : [](std::string_view line) {
    std::fprintf(stderr, "dpdk: %.*s\n", static_cast<int>(line.size()), line.data());
  };
  FILE* stream = fopencookie(&sink, "w", {.write = LogSink::write});
  if (stream == nullptr) return;
  std::setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  rte_openlog_stream(stream);
}

std::uint64_t free_huge_page_mib() {
  std::uint64_t kib = 0;
  std::error_code none;
  for (const auto& dir : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", none)) {
    std::uint64_t pages = 0, size = 0;
    std::ifstream(dir.path() / "free_hugepages") >> pages;
    std::sscanf(dir.path().filename().c_str(), "hugepages-%lukB", &size);
    kib += pages * size;
  }
  return kib / 1024;
}

/// Selects one lcore, on any processor that this thread may use; the daemon runs its own threads.
std::string lcore_argument(const cpu_set_t& allowed) {
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) return "--lcores=0@" + std::to_string(cpu);
  return "--lcores=0@0";
}

std::vector<std::string> arguments(const EalOptions& options, bool huge_pages,
                                   const cpu_set_t& allowed) {
  std::vector<std::string> args = {options.program, lcore_argument(allowed), "--no-telemetry",
                                   "--log-level=" + options.log_level};
  if (huge_pages) {
    args.insert(args.end(), {"--in-memory", "--single-file-segments"});
  } else {
    args.insert(args.end(), {"--no-huge", "--no-shconf", "-m", std::to_string(options.memory_mib)});
  }
  // The drivers of cards choose the addresses that their devices use: with an IOMMU those of the
  // process, else physical ones.
  if (options.pci_devices.empty()) args.insert(args.end(), {"--no-pci", "--iova-mode=va"});
  for (const auto& pci : options.pci_devices) args.insert(args.end(), {"-a", pci});
  return args;
}

}  // namespace

bool eal_started() { return started; }

Expected<EalInfo> start_eal(const EalOptions& options) {
  if (tried) return Error{"DPDK can be started only once in a process", EALREADY};
  tried = true;
  route_log(options);

  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  sched_getaffinity(0, sizeof affinity, &affinity);
  EalInfo info;
  info.huge_pages = options.allow_huge_pages && free_huge_page_mib() >= options.memory_mib;

  // The EAL keeps and reorders the pointers, but only during rte_eal_init.
  std::vector<std::string> args = arguments(options, info.huge_pages, affinity);
  std::vector<char*> argv;
  for (auto& arg : args) argv.push_back(arg.data());
  const int result = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  const int code = rte_errno;
  sched_setaffinity(0, sizeof affinity, &affinity);
  if (result < 0)
    return Error{std::string("DPDK does not start: ") + std::strerror(code) +
                     (options.pci_devices.empty() ? "" : "; check the PCI addresses of the ports"),
                 code};
  started = true;
  return info;
}

}  // namespace softhca::port
