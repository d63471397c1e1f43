// Limits on what a tenant's programs may have of rdma_cm. Its keys are the members of
// ConnectionsConfig: those of the table [connections], the default of all tenants, and of a
// tenant's `connections`.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "daemon/resource/reader.hpp"

namespace softhca::resource {

struct ConnectionsConfig {
  std::uint32_t identifiers = 65536;  ///< requests that wait in a backlog included
  std::uint32_t listeners = 1024;
  std::uint32_t backlog = 1024;    ///< of one listener
  std::uint32_t most = 65536;      ///< connections, with those that begin and those in time wait
  std::uint32_t half_open = 1024;  ///< of these: asked for by a peer, not established
  std::uint32_t connects_per_second = 0;  ///< both roles; 0: no limit
  // Of what is guaranteed, for each connection (admission). 0: not asked for.
  std::uint32_t pcbs_each = 0;
  std::uint32_t completion_credits_each = 0;

  bool operator==(const ConnectionsConfig&) const = default;
};

struct ConnectionsKey {
  const char* name;  ///< as it is set: "connections.backlog"
  std::uint32_t ConnectionsConfig::*member;
  std::uint32_t least;
  std::uint32_t most;

  /// In the table: "backlog".
  constexpr const char* key() const { return name + sizeof "connections." - 1; }
};

inline constexpr std::array<ConnectionsKey, 8> kConnectionsKeys = {{
    // librdmacm cannot look more identifiers up.
    {"connections.identifiers", &ConnectionsConfig::identifiers, 0, 65536},
    {"connections.listeners", &ConnectionsConfig::listeners, 0, 65536},
    {"connections.backlog", &ConnectionsConfig::backlog, 1, 65536},
    {"connections.most", &ConnectionsConfig::most, 0, 1u << 20},
    {"connections.half_open", &ConnectionsConfig::half_open, 0, 1u << 20},
    {"connections.connects_per_second", &ConnectionsConfig::connects_per_second, 0, 1'000'000},
    {"connections.pcbs_each", &ConnectionsConfig::pcbs_each, 0, 1u << 20},
    {"connections.completion_credits_each", &ConnectionsConfig::completion_credits_each, 0,
     1u << 20},
}};

/// `config`: what holds where the table says nothing. `path`: of the table.
ConnectionsConfig read_connections(const Value& value, const std::string& path,
                                   ConnectionsConfig config, Problems& problems);

}  // namespace softhca::resource
