// What the control thread owns of a tenant and of its levels, beside what the engine owns
// (tenant.hpp): it alone writes it, on its thread or in tasks; other threads read the counters.
// With several engines there would still be one of these for each tenant.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/engine/memory_proxy.hpp"
#include "daemon/management/connection_counters.hpp"
#include "daemon/qos/quota.hpp"
#include "daemon/resource/accounts.hpp"

namespace softhca::resource {
struct TenantConfig;
}

namespace softhca::engine {

struct LevelControl {
  Quota vcbs;                 ///< held by its sessions
  Counter vcbs_refused;       ///< that a session asked for and did not get
  bool leaving = false;       ///< removed: takes no new sessions
  std::vector<uid_t> users;   ///< whose processes belong to it
  std::vector<gid_t> groups;  ///< likewise
};

struct TenantControl {
  /// What is configured for it. A tenant that was removed keeps its last settings until its last
  /// program has ended.
  std::shared_ptr<const resource::TenantConfig> settings;
  /// Without levels: what its sessions hold. With levels: the part that the levels share, and what
  /// they have drawn from it and beyond.
  Quota vcbs;
  Gauge all_vcbs_in_use;        ///< with those of its levels
  Gauge all_vcbs_high_water;    ///< most at once
  Counter vcbs_refused;         ///< that a session asked for and did not get
  Counter vcbs_added;           ///< given to programs while they ran
  Counter vcbs_taken_back;      ///< from programs while they ran
  Counter link_downed;          ///< times its link went down
  bool leaving = false;         ///< removed: takes no new sessions
  resource::Accounts accounts;  ///< what its sessions have taken
  /// Memory that was theirs and is not unmapped yet.
  std::uint64_t unmapping_bytes = 0, unmapping_mappings = 0;
  /// Bytes of it that the daemon keeps locked.
  std::shared_ptr<std::atomic<std::uint64_t>> locked =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  management::ConnectionCounters connections;
  /// Through which the engine reaches what its processes do not share, as long as one of them needs
  /// it.
  std::weak_ptr<MemoryProxy> memory_proxy;
  std::uint64_t late_accesses_told = 0;  ///< to the operator
  std::uint64_t slow_memory_told = 0;
};

}  // namespace softhca::engine
