// SPDX-License-Identifier: Apache-2.0

// Limits on what a tenant's programs may use of rdma_cm. The keys are the members of
// ConnectionsConfig. They are in the table [connections], which is the default of all tenants, and
// in a tenant's `connections`.
#pragma once

#include <cstdint>

namespace softhca::configuration {

struct ConnectionsConfig {
  std::uint32_t identifiers = 65536;  ///< including requests that wait in a backlog
  std::uint32_t listeners = 1024;
  std::uint32_t most = 65536;  ///< including those being set up and those in TIME-WAIT
  /// Connections that a peer requested and that are not established; also the most requests that
  /// wait for one listener.
  std::uint32_t half_open = 1024;
  std::uint32_t connects_per_second = 0;  ///< both roles; 0: no limit
  /// PCBs, and as many completion credits, that each connection takes of the guarantees
  /// (admission). 0: nothing.
  std::uint32_t pcbs_each = 0;

  bool operator==(const ConnectionsConfig&) const = default;
};

}  // namespace softhca::configuration
