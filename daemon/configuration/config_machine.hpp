// SPDX-License-Identifier: Apache-2.0

// Checks what a configuration needs of the machine.
#pragma once

#include "daemon/configuration/config_check.hpp"

namespace softhca::configuration {

/// Reports the users and groups (of sockets and levels), the network interfaces, the folders of
/// captures and the engine's core that this machine (this network namespace) does not have.
void check_machine(const Config& config, const ConfigSource& source, Problems& problems);

}  // namespace softhca::configuration
