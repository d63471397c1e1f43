// SPDX-License-Identifier: Apache-2.0

// The part of a tenant and of its levels that the control thread owns; the engine owns the rest
// (tenant.hpp, level.hpp). Only the control thread writes it, on its thread or by requests. Other
// threads read the counters. With several engines there would still be one of these for each
// tenant.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/qos/pools/quota_search_and_lending.hpp"
#include "daemon/roce/cm/connection_counters.hpp"

namespace softhca::configuration {
struct TenantConfig;
}

namespace softhca::memory {
class Machine;
}

namespace softhca::engine {

class MemoryProxy;

struct LevelControl {
  Quota vcbs;                 ///< VCBs held by its sessions
  Counter vcbs_refused;       ///< VCBs requested by a session and refused
  bool leaving = false;       ///< removed: takes no new sessions
  std::vector<uid_t> users;   ///< the processes of these users belong to it
  std::vector<gid_t> groups;  ///< the processes of these groups belong to it
};

struct TenantControl {
  /// The tenant's settings. A tenant that was removed keeps its last settings until its last
  /// program has ended.
  std::shared_ptr<const configuration::TenantConfig> settings;
  /// Without levels: the VCBs that its sessions hold. With levels: the part that the levels share,
  /// and what they have drawn from it and beyond.
  Quota vcbs;
  Gauge all_vcbs_in_use;             ///< including those of its levels
  Gauge all_vcbs_high_water;         ///< most in use at once
  Counter vcbs_refused;              ///< VCBs requested by a session and refused
  Counter vcbs_added;                ///< VCBs given to running programs
  Counter vcbs_taken_back;           ///< VCBs taken back from running programs
  Counter link_downed;               ///< times its link went down
  bool leaving = false;              ///< removed: takes no new sessions
  configuration::Accounts accounts;  ///< resources that its sessions have taken
  /// Memory that its sessions have released and that is not unmapped yet.
  std::uint64_t unmapping_bytes = 0, unmapping_mappings = 0;
  /// Bytes of the tenant's memory that the daemon keeps locked.
  std::shared_ptr<std::atomic<std::uint64_t>> locked =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  management::ConnectionCounters connections;
  /// The region of the tenant's virtual machine, while that has a monitor; null: there is none.
  std::shared_ptr<memory::Machine> machine;
  Gauge machine_state;    ///< memory::MachineState
  Counter region_queues;  ///< bytes of the region for sessions and rings
  /// Bytes of these in use. Programs of a machine that has ended may still have some.
  std::shared_ptr<std::atomic<std::uint64_t>> region_queues_in_use =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  /// The proxy through which the engine accesses memory that the tenant's processes do not share.
  /// It exists while one of them needs it.
  std::weak_ptr<MemoryProxy> memory_proxy;
  std::uint64_t late_accesses_told = 0;  ///< late accesses already reported to the operator
  std::uint64_t slow_memory_told = 0;
};

}  // namespace softhca::engine
