// From the configuration to an engine with its tenants and ports. Start-up only.
#pragma once

#include <memory>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/port/kernel_guard.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

/// For Engine::set_receive_policy().
receive::Policy policy_of(const resource::SrqConfig& config);

engine::EngineLimits limits_of(const resource::Config& config);

/// What keeps the kernel from answering RoCE packets of addresses it owns; to be kept as long as
/// the ports are open.
using KernelGuards = std::vector<port::UdpGuard>;

/// Error: another daemon serves a tenant of the configuration. Asked before anything is taken that
/// two daemons cannot share, so that the reason is the one named.
Outcome check_free(const resource::Config& config);

/// Opens every port of the configuration and gives it to the engine. Errors name the port.
Expected<KernelGuards> add_ports(const resource::Config& config, engine::Engine& engine);

/// Makes every tenant, with its collect group and lanes. REQUIRES: ports are added. Errors name
/// the tenant.
Expected<std::vector<std::unique_ptr<engine::Tenant>>> add_tenants(const resource::Config& config,
                                                                   engine::Engine& engine);

}  // namespace softhca::control
