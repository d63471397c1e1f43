// SPDX-License-Identifier: Apache-2.0

// Reads the sections of the configuration file. Their keys are those of the schema.
#pragma once

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/config_check.hpp"
#include "daemon/configuration/schema/reader.hpp"

namespace softhca::configuration {

/// Fills `config`, which has the defaults, from the document and checks the whole. `host`: the
/// addresses of the host.
ConfigSource read_document(const Value& document, Config& config,
                           const std::vector<HostAddress>& host, Problems& problems);

}  // namespace softhca::configuration
