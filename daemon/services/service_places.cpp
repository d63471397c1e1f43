// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/service_places.hpp"

namespace softhca::control {
namespace {

// Connection manager and performance agent.
constexpr std::uint32_t kOwnClientsPerTenant = 2;

}  // namespace

GeneralServices::Place general_services_place(const configuration::Config& config) {
  return {.tenant = TenantId(static_cast<std::uint16_t>(config.pools.tenants)),
          .queue_pair = engine::kManagementQueuePair,
          .name = "general services",
          .clients = kOwnClientsPerTenant * config.pools.tenants + configuration::kMostPrograms};
}

GeneralServices::Place shared_datagrams_place(const configuration::Config& config) {
  return {.tenant = TenantId(static_cast<std::uint16_t>(config.pools.tenants + 1)),
          .queue_pair = engine::kProgramQueuePair,
          .name = "shared datagrams",
          .clients = configuration::kMostPrograms};
}

}  // namespace softhca::control
