// Where the daemon's own queue pairs stand among the tenants of a configuration: as tenants of the
// engine they have numbers that no configured tenant has.
#pragma once

#include "daemon/control/services/general_services.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

GeneralServices::Place general_services_place(const resource::Config& config);
GeneralServices::Place shared_datagrams_place(const resource::Config& config);

}  // namespace softhca::control
