// What a configuration needs of the machine it is for.
#pragma once

#include "daemon/resource/config_check.hpp"

namespace softhca::resource {

/// Notes the users and groups (of sockets and levels), the network interfaces, the folders of
/// captures and the core of the engine that this machine (this network namespace) does not have.
void check_machine(const Config& config, const ConfigSource& source, Problems& problems);

}  // namespace softhca::resource
