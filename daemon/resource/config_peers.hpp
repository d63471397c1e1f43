// The rules of [[peer]] that span several of them, and what their key files hold.
#pragma once

#include "daemon/resource/config_check.hpp"

namespace softhca::resource {

/// Notes names and addresses that are given twice.
void check_peers(const Config& config, const ConfigSource& source, Problems& problems);

/// Fills PeerConfig::secrets; notes the files that cannot be used.
void read_peer_keys(Config& config, const ConfigSource& source, Problems& problems);

}  // namespace softhca::resource
