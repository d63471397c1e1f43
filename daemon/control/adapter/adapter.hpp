// What the control layer knows of the whole adapter: configuration, tenants, engine. One per
// daemon.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/control/adapter/journal.hpp"
#include "daemon/control/sockets/blocking_calls.hpp"
#include "daemon/control/sockets/helper_processes.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/management/connection_figures.hpp"
#include "daemon/resource/config.hpp"
#include "daemon/resource/reload_counters.hpp"

namespace softhca::control {

struct Adapter {
  resource::Config config;  ///< in force
  engine::Engine& engine;
  engine::Worker& worker;
  std::vector<std::unique_ptr<engine::Tenant>> tenants;
  resource::Accounts totals{};  ///< what all tenants together have taken, up to the pools
  QuotaPool vcbs;  ///< who may have how many (A1, A2); which ones: engine.ingress().functions()

  /// Figures of rdma_cm, about a second old at most.
  std::vector<management::ConnectionFigures> connections{};

  /// Held while `tenants`, `connections` or a tenant's rows in the engine's tables change, and by
  /// other threads that read them.
  std::mutex tenants_changing{};

  /// Null: whoever has to seal something does it itself, and the engine reaches memory itself.
  std::shared_ptr<const HelperProcesses> helpers{};
  BlockingCalls blocking_calls{};  ///< in which a tenant can keep a thread

  /// Bytes of tenants' memory that the daemon may keep locked, and keeps so. Other memory is used
  /// all the same, and may have to be read from swap.
  std::uint64_t lockable = resource::machine_memory() / 4;
  std::shared_ptr<std::atomic<std::uint64_t>> locked =
      std::make_shared<std::atomic<std::uint64_t>>(0);

  Journal journal{};  ///< what happened lately
  resource::ReloadCounters reloads{};
  const char* version = "";  ///< of the program

  /// Distinguishes this daemon from others; fixed at start. Device GUIDs are derived from it.
  std::uint64_t identity = 0;

  std::uint32_t next_session = 1;  ///< no number is used again

  /// Payload bytes of the largest packet a tenant's addresses can carry, as a path MTU (256..4096).
  std::uint32_t path_mtu(const engine::Tenant& tenant) const;
  bool link_up(const engine::Tenant& tenant) const;
  /// GUID of the tenant's device, which stays the same when its addresses change. Host byte order.
  std::uint64_t node_guid(const engine::Tenant& tenant) const;

  /// What is configured for a tenant, or, once it was removed, was configured last.
  static const resource::TenantConfig& settings(const engine::Tenant& tenant) {
    return *tenant.control.settings;
  }
  /// Replaces the configuration in force, and with it the settings of its tenants.
  void put_in_force(resource::Config wanted);

  /// Runs `task` on the engine's thread while no other thread reads `tenants`: for what it changes
  /// in the rows that tenants and levels have in the engine's tables.
  void change_rows(const engine::Worker::Task& task);

  /// For set-up. Gives every tenant its guarantee of VCBs and its limits. The configuration has
  /// been checked for overcommit.
  void allocate();
  /// For a tenant that has its guarantee: gives its levels theirs.
  void allocate_levels(engine::Tenant& tenant, const resource::TenantConfig& entry);
  bool take_vcb(engine::Tenant& tenant, engine::Level* level);
  void put_vcb(engine::Tenant& tenant, engine::Level* level);
};

/// The largest of 256, 512, .. 4096 whose packets, with all headers, fit an IP MTU of `bytes`.
std::uint32_t path_mtu_for(std::uint32_t bytes);
/// Its value of enum ibv_mtu: 1 to 5 for 256 to 4096.
std::uint8_t mtu_code(std::uint32_t path_mtu);

}  // namespace softhca::control
