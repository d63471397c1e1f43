// SPDX-License-Identifier: Apache-2.0

// Starts an engine with its ports and tenants from the configuration.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/control_thread/kept_descriptors.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/engine/limits.hpp"
#include "daemon/engine/requests/configuration_requests.hpp"
#include "daemon/port/kernel_guard.hpp"

namespace softhca::control {

engine::EngineLimits limits_of(const configuration::Config& config);
/// Queue pairs of the daemon itself: general services and shared datagrams.
inline constexpr std::uint16_t kOwnServices = 2;

struct KernelGuard {
  port::UdpGuard guard;
  KeptDescriptor kept;
};
/// Guards that keep the kernel from answering RoCE packets to addresses that it owns. Keep them as
/// long as the ports are open.
using KernelGuards = std::map<Gid, KernelGuard>;

/// Adds guards for those addresses of a port that the kernel owns, if there is one by a socket that
/// an earlier adapter kept. Errors name the port.
Outcome guard_addresses(const configuration::PortConfig& port,
                        const std::vector<configuration::InterfaceAddress>& addresses,
                        KeptDescriptors& kept, KernelGuards& guards);
/// Returns the guards for all addresses of the ports. Errors name the port.
Expected<KernelGuards> guard_addresses(const configuration::Config& config, KeptDescriptors& kept);

/// Opens every port of the configuration and adds it to the engine, without addresses. A port on a
/// socket uses the one that an earlier adapter kept, if there is one. So the kernel queues packets
/// while no adapter runs, and answers none. Returns what is kept. Errors name the port.
Expected<std::vector<KeptDescriptor>> open_ports(const configuration::Config& config,
                                                 engine::Worker& worker, KeptDescriptors& kept);

/// Returns the change of a port's addresses and neighbours from `before` to `to`.
/// `is_guarded(address)`: the kernel owns the address.
engine::PortChange change_of(const configuration::PortConfig& before,
                             const configuration::PortConfig& to,
                             const std::function<bool(const Gid&)>& is_guarded);

/// Returns the network interface of an address of a port: that of the port, else the one on which
/// the kernel has the address. Empty: there is none.
std::string interface_of(const configuration::PortConfig& port, const Gid& address);

/// Returns the value of Adapter::identity. REQUIRES: the ports are open.
std::uint64_t identity_of(const configuration::Config& config, const engine::EngineView& engine);

/// Returns the row for a new tenant. Nothing: all rows of pools.tenants are taken.
std::optional<TenantId> free_tenant_id(const std::vector<const engine::Tenant*>& tenants,
                                       const configuration::Config& config);
std::vector<engine::Tenant::Address> addresses_of(const configuration::Config& config,
                                                  const configuration::TenantConfig& tenant);
/// Makes a tenant, without its levels and allocations.
std::unique_ptr<engine::Tenant> make_tenant(TenantId id, const configuration::Config& config,
                                            const configuration::TenantConfig& entry);
/// Makes every tenant of the configuration, and adds it to `change`.
std::vector<std::unique_ptr<engine::Tenant>> make_tenants(const configuration::Config& config,
                                                          engine::TenantAllocationChange& change);

/// Puts Adapter::config into force, as a change from the empty configuration. Errors name the
/// tenant or peer. REQUIRES: the ports are open, and the engine's thread has not started.
Outcome start(Adapter& adapter, const KernelGuards& guards);

}  // namespace softhca::control
