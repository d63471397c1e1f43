// SPDX-License-Identifier: Apache-2.0

// The configuration in force with all that lies over the file, for the adapter that follows. That
// adapter does not read the file: the operator may have edited it without a reload.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/resource_manager/overlay.hpp"
#include "daemon/control_thread/kept_descriptors.hpp"
#include "daemon/device/adapter/adapter.hpp"

namespace softhca::control {

struct ReloadState {
  configuration::Config file;  ///< as it was read last
  configuration::Config in_force;
  /// In force without tenants' own changes. The rest of the configuration is as in force.
  std::vector<configuration::TenantConfig> given;
  std::vector<configuration::TenantOnDemand> on_demand;
  configuration::SubAllocations own;
  std::map<std::uint64_t, configuration::AllocationRefusal> left_out;
  std::map<std::string, configuration::AllocationRefusal> absent;

  /// Tenants that are no longer in force, and have programs.
  std::vector<configuration::TenantConfig> leaving;
  struct LeavingLevel {
    std::string tenant;
    configuration::LevelConfig level;
  };
  std::vector<LeavingLevel> leaving_levels;
  /// An address that is no longer in force, and that sessions may have.
  struct FormerAddress {
    std::string tenant;
    std::uint8_t device = 0;
    std::optional<std::uint8_t> port;  ///< index; none: reachable only inside this daemon
    configuration::InterfaceAddress address;
  };
  std::vector<FormerAddress> former;

  std::string version{};  ///< of the adapter that kept this; empty: unknown
  DaemonStart started{};
  std::uint64_t identity = 0;  ///< Adapter::identity; 0: unknown

  /// True if programs have what is no longer in force.
  bool has_leavers() const {
    return !leaving.empty() || !leaving_levels.empty() || !former.empty();
  }
};

/// Returns the configuration in force with all that is leaving. An adapter that starts with it can
/// take up all programs. `in_force`, put into force then, has the leavers leave again.
configuration::Config with_leavers(const ReloadState& state);

/// Keeps the state in place of the earlier one. Errors: those of memfd_create() and
/// KeptDescriptors::keep().
Expected<KeptDescriptor> keep_state(KeptDescriptors& kept, const ReloadState& state);
/// Returns the state that an earlier adapter kept. Nothing: there is none. Error: EBADMSG.
Expected<std::optional<ReloadState>> read_state(KeptDescriptors& kept);

}  // namespace softhca::control
