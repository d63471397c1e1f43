// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/device_tree/device_tree.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "daemon/frontend/unix/device_tree/counter_files.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {
namespace {

namespace fs = std::filesystem;

/// Returns the path at which a file is written first, as programs may be reading the existing file.
fs::path staged_of(const fs::path& name) {
  return name.parent_path() / ("." + name.filename().string());
}

class TreeWriter {
 public:
  enum class Way { kAtOnce, kStaged };
  explicit TreeWriter(fs::path root, Way way = Way::kAtOnce) : root_(std::move(root)), way_(way) {}

  void file(const fs::path& name, const std::string& content) {
    put(name, [&](const fs::path& staged) {
      std::ofstream out(staged, std::ios::trunc);
      out << content << '\n';
      out.close();
      return out.good();
    });
  }

  void link(const fs::path& name, const fs::path& target) {
    put(name, [&](const fs::path& staged) {
      std::error_code error;
      fs::remove(staged, error);
      fs::create_symlink(target, staged, error);
      return !error;
    });
  }

  const std::string& failure() const { return failure_; }
  /// Returns the files that are written beside those that they replace.
  std::vector<std::string>& staged() { return staged_; }

 private:
  /// Makes the entry `name`. `make` writes it beside its place, and returns false if it cannot.
  template <class Make>
  void put(const fs::path& name, Make&& make) {
    if (!failure_.empty()) return;
    const fs::path path = root_ / name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (way_ == Way::kStaged) staged_.push_back(path.string());
    const bool made = make(staged_of(path));
    if (!error && made && way_ == Way::kAtOnce) fs::rename(staged_of(path), path, error);
    if (error || !made) failure_ = path.string();
  }

  fs::path root_;
  Way way_;
  std::vector<std::string> staged_;
  std::string failure_;
};

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

std::string gid_text(const Gid& gid) {
  std::string text;
  for (int i = 0; i < 16; i += 2)
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  return text;
}

void write_state(TreeWriter& tree, const std::string& device, bool active) {
  tree.file(fs::path(port_folder(device)) / "state", active ? "4: ACTIVE" : "1: DOWN");
  tree.file(fs::path(port_folder(device)) / "phys_state", active ? "5: LinkUp" : "3: Disabled");
}

/// Returns the folder of the device's parent, as the kernel calls it, below the root of the tree.
fs::path parent_folder(const std::string& device) { return fs::path("devices/softhca") / device; }

/// Returns the folder of a device's network interfaces, below the root of its tree.
fs::path interface_folder(const std::string& device) { return parent_folder(device) / "net"; }

/// Returns the interface for addresses that are not on an interface. The preload library shows it,
/// under a name taken from the device.
std::string own_interface(const std::string& device) { return device.substr(0, IFNAMSIZ - 1); }

std::string interface_of(const DeviceDescription& device, const DeviceDescription::Entry& entry) {
  return entry.interface.empty() ? own_interface(device.name) : entry.interface;
}

std::set<std::string> interfaces_of(const DeviceDescription& device) {
  std::set<std::string> interfaces = {own_interface(device.name)};
  for (const DeviceDescription::Entry& entry : device.gids)
    interfaces.insert(interface_of(device, entry));
  return interfaces;
}

void write_addresses(TreeWriter& tree, const DeviceDescription& device) {
  const fs::path port = port_folder(device.name);
  for (std::size_t i = 0; i < device.gids.size(); ++i) {
    const std::string index = std::to_string(i);
    tree.file(port / "gid_attrs/types" / index, "RoCE v2");
    tree.file(port / "gid_attrs/ndevs" / index, interface_of(device, device.gids[i]));
    tree.file(port / "gids" / index, gid_text(device.gids[i].gid));
  }
  for (const std::string& interface : interfaces_of(device))
    if (interface != own_interface(device.name))
      tree.link(interface_folder(device.name) / interface, fs::path("/sys/class/net") / interface);
}

/// Writes what programs read of an interface of the kernel.
void write_own_interface(TreeWriter& tree, const DeviceDescription& device) {
  const std::string name = own_interface(device.name);
  const fs::path folder = interface_folder(device.name) / name;
  const std::uint64_t guid = device.node_guid;
  tree.file(folder / "address",
            fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", guid >> 56, guid >> 48 & 0xff,
                        guid >> 40 & 0xff, guid >> 16 & 0xff, guid >> 8 & 0xff, guid & 0xff));
  tree.file(folder / "ifindex", "61440");  // above the kernel's indices; Open MPI takes 16 bits
  tree.file(folder / "mtu", "9000");
  tree.file(folder / "operstate", "up");
  tree.file(folder / "carrier", "1");
  tree.file(folder / "type", "1");
  tree.file(folder / "addr_len", "6");
  tree.file(folder / "dev_id", "0x0");
  tree.file(folder / "dev_port", "0");
  tree.link(folder / "device", "../..");
  tree.link(fs::path("class/net") / name, fs::path("../..") / folder);
}

/// Writes the processors near the device: all of them.
void write_locality(TreeWriter& tree, const std::string& device) {
  const fs::path folder = parent_folder(device);
  std::string online;
  std::getline(std::ifstream("/sys/devices/system/cpu/online"), online);
  tree.file(folder / "numa_node", "-1");
  tree.file(folder / "local_cpulist", online.empty() ? "0" : online);
}

Outcome result_of(const TreeWriter& tree) {
  if (tree.failure().empty()) return {};
  return Error{"cannot write " + tree.failure() + ": check that runtime_dir is writable", EIO};
}

constexpr const char* kRealFolders[] = {"class/infiniband", "class/infiniband_verbs"};

/// Calls f(name) for every entry of a folder. The folder may be missing, and entries may go at any
/// moment.
template <class F>
void for_each_name(const fs::path& folder, F&& f) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    f(entry->path().filename());
}

/// True if `link` in a tree stands for the entry `there` of the kernel.
bool is_link_to(const fs::path& link, const fs::path& there) {
  std::error_code error;
  return fs::read_symlink(link, error) == there && !error;
}

/// True if a daemon wrote the tree: only then does it hold the path of a socket.
bool is_device_tree(const fs::path& root) {
  bool found = false;
  const fs::path devices = root / "class/infiniband";
  for_each_name(devices, [&](const fs::path& name) {
    std::error_code error;
    found = found || fs::exists(devices / name / "softhca_socket", error);
  });
  return found;
}

}  // namespace

std::string port_folder(const std::string& device) {
  return "class/infiniband/" + device + "/ports/1";
}

std::vector<std::string> real_devices(const std::string& real) {
  std::vector<std::string> names;
  for (const char* folder : kRealFolders)
    for_each_name(fs::path(real) / folder,
                  [&](const fs::path& name) { names.push_back((folder / name).string()); });
  std::sort(names.begin(), names.end());
  return names;
}

void link_real_devices(const std::string& root, const std::string& real) {
  std::error_code error;
  for (const char* folder : kRealFolders) {
    const fs::path there = fs::path(real) / folder;
    const fs::path here = fs::path(root) / folder;
    std::vector<fs::path> gone;
    for_each_name(here, [&](const fs::path& name) {
      if (is_link_to(here / name, there / name) && !fs::exists(there / name, error))
        gone.push_back(here / name);
    });
    for (const fs::path& link : gone) fs::remove(link, error);
    for_each_name(there, [&](const fs::path& name) {
      if (!fs::exists(fs::symlink_status(here / name, error)))
        fs::create_symlink(there / name, here / name, error);
    });
  }
}

void remove_tenant_folder(const std::string& folder) {
  std::error_code error;
  // Removes links to the kernel's devices, not the devices.
  fs::remove_all(fs::path(folder) / "sysfs", error);
  std::vector<fs::path> sockets;  // of the tenant and its levels, and its control socket
  for_each_name(folder, [&](const fs::path& name) {
    if (name == "socket" || name == "control.sock" || name.extension() == ".socket")
      sockets.push_back(fs::path(folder) / name);
  });
  for (const fs::path& socket : sockets) fs::remove(socket, error);
  fs::remove_all(CounterFiles::staged_in(folder), error);
  fs::remove(folder, error);  // fails if other files are there
}

void remove_stale_tenants(const std::string& runtime_dir, const std::vector<std::string>& kept) {
  std::vector<fs::path> stale;
  for_each_name(runtime_dir, [&](const fs::path& name) {
    const fs::path folder = fs::path(runtime_dir) / name;
    std::error_code error;
    if (fs::is_symlink(folder, error) || std::find(kept.begin(), kept.end(), name) != kept.end())
      return;
    if (is_device_tree(folder / "sysfs") && !somebody_listens((folder / "socket").string()))
      stale.push_back(folder);
  });
  for (const fs::path& folder : stale) remove_tenant_folder(folder.string());
}

Outcome write_port_state(const std::string& root, const std::string& device, bool active) {
  TreeWriter tree(root);
  write_state(tree, device, active);
  return result_of(tree);
}

Expected<AddressUpdate> AddressUpdate::prepare(const std::string& root,
                                               const DeviceDescription& device) {
  TreeWriter tree(root, TreeWriter::Way::kStaged);
  write_addresses(tree, device);
  AddressUpdate update;
  update.port_ = (fs::path(root) / port_folder(device.name)).string();
  update.interfaces_ = (fs::path(root) / interface_folder(device.name)).string();
  update.addresses_ = device.gids.size();
  update.present_ = interfaces_of(device);
  update.staged_ = std::move(tree.staged());
  if (auto written = result_of(tree); !written) return written.error();
  return update;
}

AddressUpdate::~AddressUpdate() {
  std::error_code error;
  for (const std::string& name : staged_) fs::remove(staged_of(name), error);
}

Outcome AddressUpdate::apply() {
  std::error_code error;
  for (const std::string& name : staged_)
    if (fs::rename(staged_of(name), name, error); error)
      return Error{"cannot put " + name + " in its place: " + error.message(), error.value()};
  staged_.clear();
  const fs::path port = port_;
  for (std::size_t i = addresses_; fs::remove(port / "gids" / std::to_string(i), error); ++i) {
    fs::remove(port / "gid_attrs/types" / std::to_string(i), error);
    fs::remove(port / "gid_attrs/ndevs" / std::to_string(i), error);
  }
  std::vector<fs::path> gone;
  const fs::path interfaces = interfaces_;
  for_each_name(interfaces, [&](const fs::path& name) {
    if (!present_.contains(name.string())) gone.push_back(interfaces / name);
  });
  for (const fs::path& link : gone) fs::remove(link, error);
  return {};
}

Outcome write_device_tree(const std::string& root, const DeviceDescription& device) {
  std::error_code error;
  fs::remove_all(root, error);
  TreeWriter tree(root);

  const fs::path parent = parent_folder(device.name);
  const fs::path verbs = parent / "infiniband_verbs" / device.name;
  tree.file("class/infiniband_verbs/abi_version", "6");
  tree.file(verbs / "ibdev", device.name);
  tree.file(verbs / "dev", "1:3");
  tree.file(verbs / "abi_version", "1");

  const fs::path base = parent / "infiniband" / device.name;
  tree.file(base / "node_type", "1: CA");
  tree.file(base / "fw_ver", device.firmware);
  tree.file(base / "node_guid", guid_text(device.node_guid));
  tree.file(base / "sys_image_guid", guid_text(device.node_guid));
  tree.file(base / "hca_id", device.name);
  tree.file(base / "hca_type", device.board);
  tree.file(base / "hw_rev", std::to_string(device.hardware_version));
  tree.file(base / "board_id", device.board);
  tree.file(base / "softhca_socket", device.socket_path);
  tree.file(base / "softhca_protocol",
            std::to_string(device.protocol.oldest) + " " + std::to_string(device.protocol.newest));
  for (const fs::path& folder : {verbs, base}) {
    tree.link(folder / "device", "../..");
    tree.link("class" / folder.lexically_relative(parent), "../.." / folder);
  }
  write_locality(tree, device.name);
  write_own_interface(tree, device);

  const fs::path port = port_folder(device.name);
  tree.file(port / "link_layer", "Ethernet");
  write_state(tree, device.name, device.active);
  tree.file(port / "rate", "100 Gb/sec (4X EDR)");
  tree.file(port / "lid", "0x0");
  tree.file(port / "lid_mask_count", "0");
  tree.file(port / "sm_lid", "0x0");
  tree.file(port / "sm_sl", "0");
  tree.file(port / "cap_mask", "0x04010000");
  tree.file(port / "pkeys/0", "0xffff");
  write_addresses(tree, device);
  link_real_devices(root);
  return result_of(tree);
}

}  // namespace softhca::control
