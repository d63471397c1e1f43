// SPDX-License-Identifier: Apache-2.0

// The rules that concern several keys of a configuration.
#pragma once

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/configuration/schema/reader.hpp"

namespace softhca::configuration {

/// The places of a Config's entries in the document: ports[i], tenants[i], templates[i] and
/// peers[i] describe the entries with the same index.
struct ConfigSource {
  const Value* document = nullptr;
  std::vector<const Value*> ports;
  std::vector<const Value*> tenants;
  std::vector<const Value*> templates;
  std::vector<const Value*> peers;
};

/// Reports duplicates, over-committed pools, addresses that do not fit the ports, and tenants that
/// could never send.
void check_config(const Config& config, const ConfigSource& source, Problems& problems);

/// Checks the same rules for a configuration that is not from one document. The error names the
/// tenant.
Outcome check_together(const Config& config);

}  // namespace softhca::configuration
