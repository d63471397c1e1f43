// Start of DPDK's environment abstraction layer (EAL) inside this process.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"

namespace softhca::port {

struct EalOptions {
  std::string program = "softhcad";
  /// Memory for packet buffers without huge pages, MiB of address space (used as touched).
  unsigned memory_mib = 256;
  /// Use huge pages when at least memory_mib of them are free.
  bool allow_huge_pages = true;
  /// PCI addresses the daemon may take; none: the PCI bus is not even looked at.
  std::vector<std::string> pci_devices;
  /// Takes one log line of DPDK (no newline), from any thread. Default: standard error.
  std::function<void(std::string_view)> log;
  /// DPDK's log level: error, warning, notice, info, debug.
  std::string log_level = "warning";
};

struct EalInfo {
  bool huge_pages = false;
};

/// Starts the EAL. Once per process: a second call, also after a failure, is an error. Needs no
/// privilege and no huge pages. The calling thread keeps its processor affinity.
/// The EAL lives until the process ends.
Expected<EalInfo> start_eal(const EalOptions& options);

bool eal_started();

}  // namespace softhca::port
