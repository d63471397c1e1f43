// The device trees of all tenants, kept up to date: addresses, state of the link, counters, and
// links to the kernel's own adapters.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/device/counter_files.hpp"
#include "daemon/control/device/device_tree.hpp"

namespace softhca::control {

class DeviceTrees {
 public:
  /// A tenant's link went up or down.
  using LinkChanged = std::function<void(const engine::Tenant& tenant, bool up)>;

  DeviceTrees(Adapter& adapter, LinkChanged link_changed)
      : adapter_(adapter), link_changed_(std::move(link_changed)) {}

  /// To be called before the first tick().
  void look_at_real_devices() { real_devices_ = real_devices(); }

  /// Makes the tree. Nothing happens if it is there: programs may go on using it. REQUIRES: the
  /// tenant's folder is there.
  Outcome make(engine::Tenant& tenant);
  /// Removes the tenant's folder, unless something that is not ours is in it.
  void remove(const engine::Tenant& tenant);
  /// Removes the folders of all tenants.
  void remove();
  /// Writes what the tree will say, beside what it says now. Errors: it cannot be written.
  Expected<AddressUpdate> prepare_addresses(
      const engine::Tenant& tenant, const std::vector<engine::Tenant::Address>& addresses) const;

  /// About once a second.
  void tick();

 private:
  struct Tree {
    engine::Tenant* tenant;
    CounterFiles counters;
    bool link_up = true;         ///< as last seen
    bool counters_fail = false;  ///< to be written; it has been said
  };

  DeviceDescription describe(const engine::Tenant& tenant,
                             const std::vector<engine::Tenant::Address>& addresses) const;
  std::string path_of(const engine::Tenant& tenant) const;
  void check_link(Tree& tree);
  void write_counters(Tree& tree);
  void check_devices();

  Adapter& adapter_;
  LinkChanged link_changed_;
  std::list<Tree> trees_;
  std::vector<std::string> real_devices_;  ///< of the kernel, as last seen
};

}  // namespace softhca::control
