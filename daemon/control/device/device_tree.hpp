// The files by which the unmodified libibverbs finds the device of a tenant: a tree laid out like
// /sys under <runtime>/<tenant>/sysfs. As there, class/ has links to the devices below devices/.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"

namespace softhca::control {

struct DeviceDescription {
  std::string name;  ///< "softhca0"
  std::string firmware;
  std::string board;
  std::uint32_t hardware_version = 0;
  std::uint64_t node_guid = 0;  ///< host byte order
  std::string socket_path;
  bool active = true;
  struct Entry {
    Gid gid;
    std::string interface;  ///< network interface the address belongs to; empty: none
  };
  std::vector<Entry> gids;
};

/// The folder of the one port of a device, below the root of its tree.
std::string port_folder(const std::string& device);

/// Writes the tree below `root`, replacing what an earlier daemon left there. Real adapters of
/// the machine appear in it as symbolic links.
Outcome write_device_tree(const std::string& root, const DeviceDescription& device);

/// New addresses for a tree that programs may be reading, written beside those that are there.
/// Whatever can fail for lack of room or permission has succeeded by the time apply() is called;
/// without apply() nothing changes.
class AddressUpdate {
 public:
  static Expected<AddressUpdate> prepare(const std::string& root, const DeviceDescription& device);
  AddressUpdate(AddressUpdate&&) = default;
  AddressUpdate& operator=(AddressUpdate&&) = default;
  ~AddressUpdate();
  /// An error: somebody else has changed the tree since.
  Outcome apply();

 private:
  AddressUpdate() = default;
  std::string port_;                 ///< folder of the port
  std::string interfaces_;           ///< folder of the network interfaces
  std::size_t addresses_ = 0;        ///< in the table
  std::set<std::string> present_;    ///< interfaces
  std::vector<std::string> staged_;  ///< files to be put in their places
};

/// The names in a real /sys/class/infiniband and /sys/class/infiniband_verbs below `real`.
std::vector<std::string> real_devices(const std::string& real = "/sys");
/// Makes the links in a tree those of the real adapters there are now.
void link_real_devices(const std::string& root, const std::string& real = "/sys");

/// Brings the state of the port in a tree up to date.
Outcome write_port_state(const std::string& root, const std::string& device, bool active);

/// Takes away what is ours in the folder of a tenant, and the folder unless something else is
/// there.
void remove_tenant_folder(const std::string& folder);
/// The same for every tenant in `runtime_dir` that is not among those kept and has no living
/// daemon: what a daemon that was killed left behind.
void remove_stale_tenants(const std::string& runtime_dir, const std::vector<std::string>& kept);

}  // namespace softhca::control
