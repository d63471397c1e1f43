// SPDX-License-Identifier: Apache-2.0

// The rules of [[peer]] that concern several of them, and the contents of their key files.
#pragma once

#include "daemon/configuration/config_check.hpp"

namespace softhca::configuration {

/// Reports names and addresses that are given twice.
void check_peers(const Config& config, const ConfigSource& source, Problems& problems);

/// Fills PeerConfig::secrets and reports the files that cannot be used.
void read_peer_keys(Config& config, const ConfigSource& source, Problems& problems);

}  // namespace softhca::configuration
