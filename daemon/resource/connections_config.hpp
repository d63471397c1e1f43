// Limits on what a tenant's programs may have of rdma_cm. Its keys are the members of
// ConnectionsConfig: those of the table [connections], the default of all tenants, and of a
// tenant's `connections`.
#pragma once

#include <cstdint>

namespace softhca::resource {

struct ConnectionsConfig {
  std::uint32_t identifiers = 65536;  ///< requests that wait in a backlog included
  std::uint32_t listeners = 1024;
  std::uint32_t backlog = 1024;    ///< of one listener
  std::uint32_t most = 65536;      ///< connections, with those that begin and those in time wait
  std::uint32_t half_open = 1024;  ///< of these: asked for by a peer, not established
  std::uint32_t connects_per_second = 0;  ///< both roles; 0: no limit
  // What each connection takes of the guarantees (admission). 0: it takes none.
  std::uint32_t pcbs_each = 0;
  std::uint32_t completion_credits_each = 0;

  bool operator==(const ConnectionsConfig&) const = default;
};

}  // namespace softhca::resource
