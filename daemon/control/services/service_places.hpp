// The places of the daemon's own queue pairs. To the engine they are tenants, with numbers that no
// configured tenant has.
#pragma once

#include "daemon/control/services/general_services.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

GeneralServices::Place general_services_place(const resource::Config& config);
GeneralServices::Place shared_datagrams_place(const resource::Config& config);

}  // namespace softhca::control
