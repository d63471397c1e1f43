// SPDX-License-Identifier: Apache-2.0

// Makes an engine with its tenants and ports from the configuration.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/port/kernel_guard.hpp"

namespace softhca::control {

engine::EngineLimits limits_of(const configuration::Config& config);
/// Queue pairs of the daemon itself: general services and shared datagrams.
inline constexpr std::uint16_t kOwnServices = 2;

/// Guards that keep the kernel from answering RoCE packets to addresses that it owns. Keep them as
/// long as the ports are open.
using KernelGuards = std::map<Gid, port::UdpGuard>;

/// Returns an error if another daemon serves a tenant of the configuration. Call it before the
/// daemon takes a resource that two daemons cannot share, so that the error names the real reason.
Outcome check_free(const configuration::Config& config);

/// Returns the guard for an address that will be added to a port, if the kernel owns the address.
Expected<std::optional<port::UdpGuard>> guard_address(const configuration::PortConfig& port,
                                                      const Gid& address);

/// Opens every port of the configuration and adds it to the engine, with the keys of peers. Errors
/// name the port or peer.
Expected<KernelGuards> add_ports(const configuration::Config& config, engine::Engine& engine);

std::map<Gid, MacAddress> static_neighbours_of(const configuration::PortConfig& config);

/// Returns the network interface of a port, empty if it has none.
std::string interface_of(const configuration::PortConfig& port);

/// Returns the value of Adapter::identity. REQUIRES: the ports are added.
std::uint64_t identity_of(const configuration::Config& config, const engine::Engine& engine);

/// Returns the row for a new tenant. Nothing: all rows of pools.tenants are taken.
std::optional<TenantId> free_tenant_id(const std::vector<const engine::Tenant*>& tenants,
                                       const configuration::Config& config);
std::vector<engine::Tenant::Address> addresses_of(const configuration::Config& config,
                                                  const configuration::TenantConfig& tenant);
/// Makes every tenant, with its collect group and TVLs. REQUIRES: the ports are added. Errors name
/// the tenant.
Expected<std::vector<std::unique_ptr<engine::Tenant>>> add_tenants(
    const configuration::Config& config, engine::Engine& engine);

}  // namespace softhca::control
