// Where the queue pairs of the daemon's own stand among the tenants of a configuration: their
// numbers as tenants of the engine are those of no tenant of it.
#pragma once

#include "daemon/control/services/general_services.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

GeneralServices::Place general_services_place(const resource::Config& config);
GeneralServices::Place shared_datagrams_place(const resource::Config& config);

}  // namespace softhca::control
