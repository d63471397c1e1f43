// SPDX-License-Identifier: Apache-2.0

// The device trees of all tenants, kept up to date: addresses, link state, counters, and links to
// the kernel's own adapters.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/frontend/unix/device_tree/counter_files.hpp"
#include "daemon/frontend/unix/device_tree/device_tree.hpp"

namespace softhca::control {

class DeviceTrees {
 public:
  /// Called when the link of a port of a tenant's device has gone up or down.
  using LinkChanged = std::function<void(const engine::Tenant& tenant, std::uint8_t device,
                                         std::uint8_t port, bool up)>;

  DeviceTrees(Adapter& adapter, LinkChanged link_changed)
      : adapter_(adapter), link_changed_(std::move(link_changed)) {}

  /// Records the kernel's adapters. Call it before the first tick().
  void look_at_real_devices() { real_devices_ = real_devices(); }

  /// Makes the tree of a tenant, unless it exists: programs may be using it. `in_use`: they may be
  /// using that of an earlier adapter. REQUIRES: the tenant's folder exists.
  Outcome make(engine::Tenant& tenant, bool in_use);
  /// Removes the tenant's folder, unless it has files that are not the daemon's.
  void remove(const engine::Tenant& tenant);
  /// Removes the folders of all tenants, and cdi.json.
  void remove();
  /// Writes cdi.json with all tenants that take new sessions. Logs a failure once.
  void write_cdi_file();
  /// Writes the new content of the tree beside the current one. Error: it cannot be written.
  Expected<AddressUpdate> prepare_addresses(
      const engine::Tenant& tenant, const std::vector<engine::Tenant::Address>& addresses) const;

  /// Tells programs of ports that went up or down.
  void check_links();
  /// Call it about once a second.
  void tick();

 private:
  struct Tree {
    engine::Tenant* tenant;
    CounterFiles counters;
    /// As last seen, by device and port.
    std::map<std::pair<std::uint8_t, std::uint8_t>, bool> links_up;
    bool counters_fail = false;  ///< they cannot be written, and the log says so
  };

  DeviceDescriptions describe(const engine::Tenant& tenant,
                              const std::vector<engine::Tenant::Address>& addresses) const;
  std::string path_of(const engine::Tenant& tenant) const;
  void check_link(Tree& tree);
  void note_link(engine::Tenant& tenant, std::uint8_t device, std::uint8_t port, bool up);
  void write_counters(Tree& tree);
  void check_devices();

  Adapter& adapter_;
  LinkChanged link_changed_;
  std::list<Tree> trees_;
  std::vector<std::string> real_devices_;  ///< of the kernel, as last seen
  bool cdi_file_written_ = false;          ///< this daemon has put a cdi.json in place
  std::string cdi_file_failure_;           ///< that was logged last
};

}  // namespace softhca::control
