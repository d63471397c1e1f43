// Makes an engine with its tenants and ports from the configuration.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/port/kernel_guard.hpp"
#include "daemon/resource/config.hpp"

namespace softhca::control {

engine::EngineLimits limits_of(const resource::Config& config);
/// Queue pairs of the daemon's own: general services and shared datagrams.
inline constexpr std::uint16_t kOwnServices = 2;

/// What keeps the kernel from answering RoCE packets of addresses it owns; to be kept as long as
/// the ports are open.
using KernelGuards = std::map<Gid, port::UdpGuard>;

/// Error: another daemon serves a tenant of the configuration. To be called before anything is
/// taken that two daemons cannot share, so that the error names the real reason.
Outcome check_free(const resource::Config& config);

/// For an address that is to be added to a port: the guard, if the kernel owns the address.
Expected<std::optional<port::UdpGuard>> guard_address(const resource::PortConfig& port,
                                                      const Gid& address);

/// Opens every port of the configuration and gives it to the engine, with the keys of peers. Errors
/// name the port or peer.
Expected<KernelGuards> add_ports(const resource::Config& config, engine::Engine& engine);

std::map<Gid, MacAddress> static_neighbours_of(const resource::PortConfig& config);

/// Returns the network interface of a port, empty if it has none.
std::string interface_of(const resource::PortConfig& port);

/// For Adapter::identity. REQUIRES: ports are added.
std::uint64_t identity_of(const resource::Config& config, const engine::Engine& engine);

/// The row of a tenant that is to be made; nothing: all pools.tenants are taken.
std::optional<TenantId> free_tenant_id(const std::vector<const engine::Tenant*>& tenants,
                                       const resource::Config& config);
std::vector<engine::Tenant::Address> addresses_of(const resource::Config& config,
                                                  const resource::TenantConfig& tenant);
/// Makes every tenant, with its collect group and TVLs. REQUIRES: ports are added. Errors name
/// the tenant.
Expected<std::vector<std::unique_ptr<engine::Tenant>>> add_tenants(const resource::Config& config,
                                                                   engine::Engine& engine);

}  // namespace softhca::control
