// The rules that span several keys of a configuration.
#pragma once

#include "daemon/base/expected.hpp"
#include "daemon/resource/config.hpp"
#include "daemon/resource/reader.hpp"

namespace softhca::resource {

/// Where the entries of a Config stand in the document: ports[i], tenants[i], templates[i] and
/// peers[i] describe the entries of the same index.
struct ConfigSource {
  const Value* document = nullptr;
  std::vector<const Value*> ports;
  std::vector<const Value*> tenants;
  std::vector<const Value*> templates;
  std::vector<const Value*> peers;
};

/// Duplicates, over-committed pools, addresses that do not fit the ports, tenants that could never
/// send.
void check_config(const Config& config, const ConfigSource& source, Problems& problems);

/// The same rules for a configuration that is not of one document. The error names the tenant.
Outcome check_together(const Config& config);

}  // namespace softhca::resource
