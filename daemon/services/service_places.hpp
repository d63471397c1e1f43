// SPDX-License-Identifier: Apache-2.0

// The places of the daemon's own queue pairs. To the engine they are tenants, with numbers that no
// configured tenant has.
#pragma once

#include "daemon/configuration/config.hpp"
#include "daemon/services/general_services.hpp"

namespace softhca::control {

GeneralServices::Place general_services_place(const configuration::Config& config);
GeneralServices::Place shared_datagrams_place(const configuration::Config& config);

}  // namespace softhca::control
