// SPDX-License-Identifier: Apache-2.0

// The control thread's state of the whole adapter: configuration, tenants, engine. One per daemon.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/version.hpp"
#include "daemon/base/pulse.hpp"
#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/reload_counters.hpp"
#include "daemon/control_thread/blocking_calls.hpp"
#include "daemon/control_thread/helper_processes.hpp"
#include "daemon/control_thread/kept_descriptors.hpp"
#include "daemon/device/adapter/device_ports.hpp"
#include "daemon/device/adapter/journal.hpp"
#include "daemon/engine/requests/tenant_allocations.hpp"
#include "daemon/engine/view.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/roce/rdma_cm/connection_figures.hpp"

namespace softhca::control {

/// When the first adapter of the daemon started.
struct DaemonStart {
  std::chrono::system_clock::time_point time = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point steady = std::chrono::steady_clock::now();
};

struct Lineage {
  const char* version = "";       ///< the daemon's version
  std::string earlier_version{};  ///< of the adapter that this one replaces; empty: unknown
  DaemonStart started{};
};

struct Adapter {
  configuration::Config config;  ///< in force
  engine::EngineView engine;
  engine::Worker& worker;
  engine::TenantAllocations& allocations;
  std::vector<std::unique_ptr<engine::Tenant>> tenants{};
  configuration::Accounts
      totals{};  ///< objects that all tenants together have, limited by the pools
  /// Number of VCBs per tenant and level (A1, A2); engine.functions assigns them.
  QuotaPool vcbs;

  /// Figures of rdma_cm, at most about a second old.
  std::vector<management::ConnectionFigures> connections{};

  /// The control thread holds it to change `tenants`, `connections` or a tenant's rows in the
  /// engine's tables. Other threads hold it to read them.
  std::mutex tenants_changing{};

  /// Null: the daemon's threads seal memory themselves, and the engine accesses processes' memory
  /// itself.
  std::shared_ptr<const HelperProcesses> helpers{};
  BlockingCalls blocking_calls{};  ///< system calls that a tenant can delay

  // Null: nothing outlives the adapter.
  Keeping* keeping = nullptr;
  records::RecordStore* records = nullptr;
  KeptDescriptors kept{};
  Pulse* pulse = nullptr;  ///< of the control thread
  KeptId culprit = 0;      ///< the connection with which the adapter has crashed twice; 0: none

  /// Bytes of tenants' memory that the daemon may keep locked, and the bytes that it keeps locked.
  /// The daemon uses further memory too, but the kernel may have to read that from swap.
  std::uint64_t lockable = configuration::machine_memory() / 4;
  std::shared_ptr<std::atomic<std::uint64_t>> locked =
      std::make_shared<std::atomic<std::uint64_t>>(0);

  Journal journal{};  ///< recent events
  configuration::ReloadCounters reloads{};
  Lineage lineage{};
  /// Folder of this host with libibverbs/ and softhca/ of the provider, for containers.
  std::string libraries{};
  abi::VersionRange protocol = abi::kSpokenVersions;  ///< versions that the daemon speaks

  /// Distinguishes this daemon from others; fixed at the daemon's start. The device GUIDs are
  /// derived from it.
  std::uint64_t identity = 0;

  std::uint32_t next_session = 1;  ///< numbers are never reused

  /// Returns the payload bytes of the largest packet that all addresses of `part` can carry, as a
  /// path MTU (256..4096).
  std::uint32_t path_mtu(const engine::Tenant& tenant, DevicePart part = {}) const;
  /// True if the links of all addresses of `part` are up.
  bool link_up(const GidEntries& addresses, DevicePart part = {}) const;
  /// Returns the devices of a tenant, never none.
  std::vector<configuration::TenantDevice> devices(const engine::Tenant& tenant) const {
    return configuration::devices_of(settings(tenant), config.device);
  }
  /// Returns the name of a device if the tenant has several; else nothing.
  std::string name_among_several(const engine::Tenant& tenant, std::uint8_t device) const;
  /// Returns the GUID of a device of the tenant, which stays the same when its addresses change.
  /// Host byte order. REQUIRES: the tenant has so many devices.
  std::uint64_t node_guid(const engine::Tenant& tenant, std::uint8_t device) const;

  /// Returns the port of the daemon that has this name.
  std::optional<PortId> find_port(std::string_view name) const;

  /// Returns the settings of a tenant; of a removed tenant, the last settings.
  static const configuration::TenantConfig& settings(const engine::Tenant& tenant) {
    return *tenant.control.settings;
  }
  /// Replaces the configuration in force, and with it the settings of its tenants.
  void put_in_force(configuration::Config wanted);

  /// Carries a request to the engine while no other thread reads `tenants`: one that changes the
  /// rows of tenants and levels in the engine's tables.
  template <class Request>
  auto change_rows(Request&& request) {
    const std::lock_guard lock(tenants_changing);
    return worker.run(request);
  }

  /// Reports that a record of an earlier adapter does not fit, in an event. What it names ends:
  /// this adapter does not take it up.
  void note_unfit(const std::string& tenant, const std::string& what) {
    journal.add({.kind = "culprit", .tenant = tenant, .text = what});
  }

  /// Puts into force, at the start and by a reload, the settings of the control thread: how the
  /// engine idles, and the limits of all tenants together and of each tenant that `wanted` names.
  /// engine::PutInForce has those of the engine.
  void apply(const configuration::Config& wanted);
  bool take_vcb(engine::Tenant& tenant, engine::Level* level);
  void put_vcb(engine::Tenant& tenant, engine::Level* level);
};

/// Returns the largest of 256, 512, .. 4096 for which packets with all headers fit an IP MTU of
/// `bytes`.
std::uint32_t path_mtu_for(std::uint32_t bytes);
/// Returns the value of enum ibv_mtu for a path MTU: 1 to 5 for 256 to 4096.
std::uint8_t mtu_code(std::uint32_t path_mtu);

}  // namespace softhca::control
