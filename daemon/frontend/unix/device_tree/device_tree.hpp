// SPDX-License-Identifier: Apache-2.0

// The files by which the unmodified libibverbs finds a tenant's device: a tree with the layout of
// /sys, under <runtime>/<tenant>/sysfs. As in /sys, class/ has links to the devices below devices/.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "abi/version.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"

namespace softhca::control {

struct DeviceDescription {
  std::string name;                   ///< "softhca0"
  std::uint8_t index = 0;             ///< among the devices of the tenant
  const char* rate = "";              ///< as the kernel's file has it: "100 Gb/sec (4X EDR)"
  std::string pci;                    ///< PCI address; empty: not on a PCI bus
  std::optional<std::uint32_t> numa;  ///< NUMA node
  std::uint32_t vendor = 0, part = 0;
  std::string firmware;
  std::string board;
  std::uint32_t hardware_version = 0;
  std::uint64_t node_guid = 0;  ///< host byte order
  std::string socket_path;
  abi::VersionRange protocol = abi::kSpokenVersions;  ///< versions that the daemon speaks
  struct Entry {
    Gid gid;
    std::string interface;  ///< network interface that has the address; empty: none
  };
  struct Port {
    bool active = true;
    std::vector<Entry> gids;
  };
  std::vector<Port> ports = std::vector<Port>(1);  ///< never empty
};

/// The devices of a tenant, in the order of their indices.
using DeviceDescriptions = std::vector<DeviceDescription>;

/// Returns the folder of a port of the device, below the root of its tree.
std::string port_folder(const std::string& device, std::size_t port);

/// Writes a file, over an existing one. Returns 0 or an errno value.
int write_file(const std::string& path, const std::string& content);

/// Writes the tree below `root`, and replaces what an earlier daemon left there. The real adapters
/// of the machine appear in it as symbolic links. The counters of further devices and ports are
/// links to those of the first port, as they share all counters. `in_use`: programs use the
/// existing tree, which had the same devices; only what differs is replaced. REQUIRES: there is a
/// device.
Outcome write_device_tree(const std::string& root, const DeviceDescriptions& devices,
                          bool in_use = false);

/// New addresses for a tree that programs may be reading. prepare() writes the new files beside the
/// existing ones, and fails if space or permissions are missing. Nothing changes before apply().
class AddressUpdate {
 public:
  static Expected<AddressUpdate> prepare(const std::string& root,
                                         const DeviceDescriptions& devices);
  AddressUpdate(AddressUpdate&&) = default;
  AddressUpdate& operator=(AddressUpdate&&) = default;
  ~AddressUpdate();
  /// Puts the new files in place. Error: another process has changed the tree since prepare().
  Outcome apply();

 private:
  struct OfDevice {
    std::string ports;                   ///< folder of the ports
    std::string interfaces;              ///< folder of the network interfaces
    std::vector<std::size_t> addresses;  ///< number of addresses of each port
    std::set<std::string> present;       ///< interfaces of the new addresses
  };

  friend Outcome write_device_tree(const std::string& root, const DeviceDescriptions& devices,
                                   bool in_use);
  AddressUpdate() = default;
  static OfDevice describe(const std::string& root, const DeviceDescription& device);
  static void remove_old(const OfDevice& device);

  std::vector<OfDevice> devices_;
  std::vector<std::string> staged_;  ///< files that apply() puts in place
  std::vector<std::string> made_;    ///< folders of new ports, until apply()
};

/// Returns the names in the real /sys/class/infiniband, /sys/class/infiniband_verbs and
/// /sys/bus/pci/devices, below `real`.
std::vector<std::string> real_devices(const std::string& real = "/sys");
/// Updates the links in a tree to the real adapters that exist now.
void link_real_devices(const std::string& root, const std::string& real = "/sys");

/// Returns the state of a port in a tree, as programs were last told. Nothing: it is not there.
std::optional<bool> read_port_state(const std::string& root, const std::string& device,
                                    std::size_t port);
/// Updates the state of a port in a tree.
Outcome write_port_state(const std::string& root, const std::string& device, std::size_t port,
                         bool active);

/// Removes the daemon's files from the folder of a tenant, and the folder if it is empty then.
void remove_tenant_folder(const std::string& folder);
/// Removes what a killed daemon left behind: the folder of every tenant in `runtime_dir` that is
/// not in `kept` and has no running daemon.
void remove_stale_tenants(const std::string& runtime_dir, const std::vector<std::string>& kept);

}  // namespace softhca::control
