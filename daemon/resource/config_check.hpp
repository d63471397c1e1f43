// The rules that span several keys of a configuration.
#pragma once

#include "daemon/resource/config.hpp"
#include "daemon/resource/reader.hpp"

namespace softhca::resource {

/// Where the entries of a Config stand in the document: ports[i] and tenants[i] describe the
/// entries of the same index.
struct ConfigSource {
  const Value* document = nullptr;
  std::vector<const Value*> ports;
  std::vector<const Value*> tenants;
};

/// Duplicates, over-committed pools, addresses that do not fit the ports, tenants that could never
/// send.
void check_config(const Config& config, const ConfigSource& source, Problems& problems);

}  // namespace softhca::resource
