// SPDX-License-Identifier: Apache-2.0

// Starts DPDK's environment abstraction layer (EAL) in this process.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"

namespace softhca::port {

struct EalOptions {
  std::string program = "softhcad";
  /// Memory for packet buffers without huge pages, in MiB of address space (pages are allocated
  /// when touched).
  unsigned memory_mib = 256;
  /// Use huge pages if at least memory_mib of them are free.
  bool allow_huge_pages = true;
  /// PCI addresses that the daemon may take. If there are none, the EAL does not scan the PCI bus.
  std::vector<std::string> pci_devices;
  /// Takes one log line of DPDK (without newline), from any thread. Default: standard error.
  std::function<void(std::string_view)> log;
  /// DPDK's log level: error, warning, notice, info, debug.
  std::string log_level = "warning";
};

struct EalInfo {
  bool huge_pages = false;
};

/// Starts the EAL, once per process: a second call, also after a failure, is an error. Needs no
/// privilege and no huge pages. The calling thread keeps its processor affinity. The EAL lives
/// until the process ends.
Expected<EalInfo> start_eal(const EalOptions& options);

bool eal_started();

}  // namespace softhca::port
