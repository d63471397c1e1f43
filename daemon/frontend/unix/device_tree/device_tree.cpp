// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/device_tree/device_tree.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/device/adapter/guid.hpp"
#include "daemon/frontend/unix/device_tree/counter_files.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostProcessors = 8192;
constexpr const char* kActive = "4: ACTIVE";             ///< file `state` of a port
constexpr std::uint32_t kEthernetController = 0x020000;  // PCI class

/// Returns the path at which a file is written first, as programs may be reading the existing file.
fs::path staged_of(const fs::path& name) {
  return name.parent_path() / ("." + name.filename().string());
}

bool is_link_to(const fs::path& link, const fs::path& there) {
  std::error_code error;
  return fs::read_symlink(link, error) == there && !error;
}

bool has_content(const fs::path& path, const std::string& content) {
  std::string found(content.size() + 1, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(found.data(), static_cast<std::streamsize>(found.size()));
  return in.eof() && in.gcount() == static_cast<std::streamsize>(content.size()) &&
         found.compare(0, content.size(), content) == 0;
}

class TreeWriter {
 public:
  enum class Way {
    kAtOnce,
    kDiffering,  ///< as kAtOnce; leaves files and links that have the content already
    kStaged,
  };
  explicit TreeWriter(fs::path root, Way way = Way::kAtOnce) : root_(std::move(root)), way_(way) {}

  /// Writes a file of text.
  void file(const fs::path& name, const std::string& content) { bytes(name, content + '\n'); }

  void bytes(const fs::path& name, const std::string& content) {
    if (way_ == Way::kDiffering && has_content(root_ / name, content)) return;
    put(name, [&](const fs::path& staged) { return write_file(staged, content); });
  }

  void link(const fs::path& name, const fs::path& target) {
    if (way_ == Way::kDiffering && is_link_to(root_ / name, target)) return;
    put(name, [&](const fs::path& staged) {
      std::error_code error;
      fs::remove(staged, error);
      fs::create_symlink(target, staged, error);
      return error.value();
    });
  }

  Outcome result() const {
    if (failure_.empty()) return {};
    return Error{"cannot write " + failure_ + ": " + std::strerror(code_), code_};
  }
  /// Returns the files that are written beside those that they replace.
  std::vector<std::string>& staged() { return staged_; }

 private:
  /// Makes the entry `name`. `make` writes it beside its place. It returns 0 or an errno value.
  template <class Make>
  void put(const fs::path& name, Make&& make) {
    if (!failure_.empty()) return;
    const fs::path path = root_ / name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (way_ == Way::kStaged) staged_.push_back(path.string());
    if (!error) code_ = make(staged_of(path));
    if (!error && code_ == 0 && way_ != Way::kStaged) fs::rename(staged_of(path), path, error);
    if (error) code_ = error.value();
    if (code_ != 0) failure_ = path.string();
  }

  fs::path root_;
  Way way_;
  std::vector<std::string> staged_;
  std::string failure_;
  int code_ = 0;  ///< its errno value
};

std::string gid_text(const Gid& gid) {
  std::string text;
  for (int i = 0; i < 16; i += 2)
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  return text;
}

void write_state(TreeWriter& tree, const fs::path& port, bool active) {
  tree.file(port / "state", active ? kActive : "1: DOWN");
  tree.file(port / "phys_state", active ? "5: LinkUp" : "3: Disabled");
}

/// Returns the bus of a PCI address: "0000:3b" of "0000:3b:00.0".
std::string bus_of(const std::string& pci) { return pci.substr(0, pci.rfind(':')); }

/// Returns the folder of the device's parent, as the kernel calls it, below the root of the tree.
fs::path parent_folder(const DeviceDescription& device) {
  if (device.pci.empty()) return fs::path("devices/softhca") / device.name;
  return fs::path("devices/pci" + bus_of(device.pci)) / device.pci;
}

/// Returns the folder of the device itself.
fs::path device_folder(const DeviceDescription& device) {
  return parent_folder(device) / "infiniband" / device.name;
}

/// Returns the folder of a device's network interfaces, below the root of its tree.
fs::path interface_folder(const DeviceDescription& device) { return parent_folder(device) / "net"; }

/// Returns the interface for addresses that are not on an interface. The preload library shows it,
/// under a name taken from the device.
std::string own_interface(const std::string& device) { return device.substr(0, IFNAMSIZ - 1); }

std::string interface_of(const DeviceDescription& device, const DeviceDescription::Entry& entry) {
  return entry.interface.empty() ? own_interface(device.name) : entry.interface;
}

std::set<std::string> interfaces_of(const DeviceDescription& device) {
  std::set<std::string> interfaces = {own_interface(device.name)};
  for (const DeviceDescription::Port& port : device.ports)
    for (const DeviceDescription::Entry& entry : port.gids)
      interfaces.insert(interface_of(device, entry));
  return interfaces;
}

void write_addresses(TreeWriter& tree, const DeviceDescription& device) {
  for (std::size_t n = 0; n < device.ports.size(); ++n) {
    const fs::path port = port_folder(device.name, n + 1);
    const std::vector<DeviceDescription::Entry>& gids = device.ports[n].gids;
    for (std::size_t i = 0; i < gids.size(); ++i) {
      const std::string index = std::to_string(i);
      tree.file(port / "gid_attrs/types" / index, "RoCE v2");
      tree.file(port / "gid_attrs/ndevs" / index, interface_of(device, gids[i]));
      tree.file(port / "gids" / index, gid_text(gids[i].gid));
    }
  }
  for (const std::string& interface : interfaces_of(device))
    if (interface != own_interface(device.name))
      tree.link(interface_folder(device) / interface, fs::path("/sys/class/net") / interface);
}

/// Writes the files of a port without its addresses. Its counters are links to those of the first
/// port of the device `first`.
void write_port(TreeWriter& tree, const DeviceDescription& first, const DeviceDescription& device,
                std::size_t number) {
  const auto port_of = [](const DeviceDescription& of, std::size_t n) {
    return device_folder(of) / "ports" / std::to_string(n);
  };
  const fs::path port = port_of(device, number);
  tree.file(port / "link_layer", "Ethernet");
  write_state(tree, port, device.ports[number - 1].active);
  tree.file(port / "rate", device.rate);
  tree.file(port / "lid", "0x0");
  tree.file(port / "lid_mask_count", "0");
  tree.file(port / "sm_lid", "0x0");
  tree.file(port / "sm_sl", "0");
  tree.file(port / "cap_mask", "0x04010000");
  tree.file(port / "pkeys/0", "0xffff");
  if (device.index == 0 && number == 1) return;
  for (const char* counters : {"counters", "hw_counters"})
    tree.link(port / counters, (port_of(first, 1) / counters).lexically_relative(port));
}

/// Writes what programs read of an interface of the kernel.
void write_own_interface(TreeWriter& tree, const DeviceDescription& device) {
  const std::string name = own_interface(device.name);
  const fs::path folder = interface_folder(device) / name;
  const std::uint64_t guid = device.node_guid;
  tree.file(folder / "address",
            fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", guid >> 56, guid >> 48 & 0xff,
                        guid >> 40 & 0xff, guid >> 16 & 0xff, guid >> 8 & 0xff, guid & 0xff));
  // Above the kernel's indices. Open MPI takes 16 bits. Those from 61441 on are the preload
  // library's.
  tree.file(folder / "ifindex", std::to_string(61440 - device.index));
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

std::string line_of(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

/// Returns the mask of processors for a list: "00000001,0000000f" for "0-3,32".
std::string mask_of(const std::string& list) {
  std::vector<std::uint32_t> words(1);
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    unsigned first = 0, last = 0;
    const int given = std::sscanf(part.c_str(), "%u-%u", &first, &last);
    if (given == 1) last = first;
    for (unsigned cpu = first; given >= 1 && cpu <= last && cpu < kMostProcessors; ++cpu) {
      if (words.size() <= cpu / 32) words.resize(cpu / 32 + 1);
      words[cpu / 32] |= 1U << cpu % 32;
    }
  }
  std::string mask;
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    mask += fmt::format("{}{:08x}", mask.empty() ? "" : ",", *word);
  return mask;
}

/// Writes the processors near the device: those of its NUMA node if the machine has it, else all.
void write_locality(TreeWriter& tree, const DeviceDescription& device) {
  const fs::path folder = parent_folder(device);
  const std::string node = device.numa ? std::to_string(*device.numa) : "-1";
  std::string near = line_of("/sys/devices/system/node/node" + node + "/cpulist");
  if (near.empty()) near = line_of("/sys/devices/system/cpu/online");
  if (near.empty()) near = "0";
  tree.file(folder / "numa_node", node);
  tree.file(folder / "local_cpulist", near);
  tree.file(folder / "local_cpus", mask_of(near));
}

/// Returns the header of the device's PCI configuration space, which any user may read: no memory,
/// no capabilities.
std::string pci_header(const DeviceDescription& device) {
  std::string header(64, '\0');
  const auto put = [&](std::size_t at, std::uint32_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) header[at + i] = static_cast<char>(value >> 8 * i);
  };
  for (const std::size_t identifiers : {0x00, 0x2c}) {  // its own, and the subsystem's
    put(identifiers, device.vendor, 2);
    put(identifiers + 2, device.part, 2);
  }
  put(0x08, kEthernetController << 8 | (device.hardware_version & 0xff), 4);
  return header;
}

/// Writes what programs read of a PCI device. Its identifiers are the low 16 bits of those that the
/// device reports.
void write_pci(TreeWriter& tree, const DeviceDescription& device) {
  if (device.pci.empty()) return;
  const fs::path folder = parent_folder(device);
  const std::string bus = bus_of(device.pci);
  const std::uint32_t vendor = device.vendor & 0xffff, part = device.part & 0xffff;
  for (const char* of : {"", "subsystem_"}) {
    tree.file(folder / (std::string(of) + "vendor"), fmt::format("0x{:04x}", vendor));
    tree.file(folder / (std::string(of) + "device"), fmt::format("0x{:04x}", part));
  }
  tree.file(folder / "class", fmt::format("0x{:06x}", kEthernetController));
  tree.file(folder / "revision", fmt::format("0x{:02x}", device.hardware_version & 0xff));
  for (const char* which : {"max", "current"}) {
    tree.file(folder / (std::string(which) + "_link_speed"), "32.0 GT/s PCIe");
    tree.file(folder / (std::string(which) + "_link_width"), "16");
  }
  tree.file(folder / "enable", "1");
  tree.file(folder / "irq", "0");
  tree.bytes(folder / "config", pci_header(device));
  constexpr int kResources = 13;
  std::string resources;
  for (int i = 0; i < kResources; ++i)
    resources += fmt::format("{0:#018x} {0:#018x} {0:#018x}\n", 0);
  tree.bytes(folder / "resource", resources);
  tree.file(folder / "uevent",
            fmt::format("DRIVER=softhca\nPCI_CLASS={3:X}\nPCI_ID={0:04X}:{1:04X}\n"
                        "PCI_SUBSYS_ID={0:04X}:{1:04X}\nPCI_SLOT_NAME={2}",
                        vendor, part, device.pci, kEthernetController));
  tree.link(folder / "subsystem", "../../../bus/pci");
  tree.link(fs::path("bus/pci/devices") / device.pci, fs::path("../../..") / folder);
  const fs::path bus_folder = folder.parent_path() / "pci_bus" / bus;
  tree.file(bus_folder / "cpulistaffinity", line_of("/sys/devices/system/cpu/online"));
  tree.link(fs::path("class/pci_bus") / bus, fs::path("../..") / bus_folder);
}

/// A tree without PCI devices has no folder of them, and so no links to the kernel's.
constexpr const char* kRealFolders[] = {"class/infiniband", "class/infiniband_verbs",
                                        "bus/pci/devices"};

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

int write_file(const std::string& path, const std::string& content) {
  errno = 0;
  std::ofstream out(path, std::ios::trunc | std::ios::binary);
  out << content;
  out.close();
  return out.good() ? 0 : errno != 0 ? errno : EIO;
}

std::string port_folder(const std::string& device, std::size_t port) {
  return "class/infiniband/" + device + "/ports/" + std::to_string(port);
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

std::optional<bool> read_port_state(const std::string& root, const std::string& device,
                                    std::size_t port) {
  const std::string state = line_of(root + "/" + port_folder(device, port) + "/state");
  if (state.empty()) return std::nullopt;
  return state == kActive;
}

Outcome write_port_state(const std::string& root, const std::string& device, std::size_t port,
                         bool active) {
  TreeWriter tree(root);
  write_state(tree, port_folder(device, port), active);
  return tree.result();
}

Expected<AddressUpdate> AddressUpdate::prepare(const std::string& root,
                                               const DeviceDescriptions& devices) {
  TreeWriter tree(root, TreeWriter::Way::kStaged);
  AddressUpdate update;
  for (const DeviceDescription& device : devices) {
    const OfDevice& of = update.devices_.emplace_back(describe(root, device));
    for (std::size_t number = 1; number <= device.ports.size(); ++number) {
      const fs::path port = fs::path(of.ports) / std::to_string(number);
      std::error_code error;
      if (fs::exists(port / "state", error)) continue;
      update.made_.push_back(port.string());
      write_port(tree, devices.front(), device, number);
    }
    write_addresses(tree, device);
  }
  update.staged_ = std::move(tree.staged());
  if (auto written = tree.result(); !written) return written.error();
  return update;
}

AddressUpdate::OfDevice AddressUpdate::describe(const std::string& root,
                                                const DeviceDescription& device) {
  OfDevice of{.ports = (fs::path(root) / device_folder(device) / "ports").string(),
              .interfaces = (fs::path(root) / interface_folder(device)).string(),
              .addresses = {},
              .present = interfaces_of(device)};
  for (const DeviceDescription::Port& port : device.ports) of.addresses.push_back(port.gids.size());
  return of;
}

AddressUpdate::~AddressUpdate() {
  std::error_code error;
  for (const std::string& port : made_) fs::remove_all(port, error);
  for (const std::string& name : staged_) fs::remove(staged_of(name), error);
}

Outcome AddressUpdate::apply() {
  std::error_code error;
  for (const std::string& name : staged_)
    if (fs::rename(staged_of(name), name, error); error)
      return Error{"cannot put " + name + " in its place: " + error.message(), error.value()};
  staged_.clear();
  made_.clear();
  for (const OfDevice& device : devices_) remove_old(device);
  return {};
}

/// Removes the files of addresses and ports that the device no longer has.
void AddressUpdate::remove_old(const OfDevice& device) {
  std::error_code error;
  const fs::path ports = device.ports;
  std::size_t number = 0;
  for (const std::size_t addresses : device.addresses) {
    const fs::path port = ports / std::to_string(++number);
    for (std::size_t i = addresses; fs::remove(port / "gids" / std::to_string(i), error); ++i) {
      fs::remove(port / "gid_attrs/types" / std::to_string(i), error);
      fs::remove(port / "gid_attrs/ndevs" / std::to_string(i), error);
    }
  }
  while (fs::remove_all(ports / std::to_string(++number), error) != 0 && !error) {
  }
  std::vector<fs::path> gone;
  const fs::path interfaces = device.interfaces;
  for_each_name(interfaces, [&](const fs::path& name) {
    if (!device.present.contains(name.string())) gone.push_back(interfaces / name);
  });
  for (const fs::path& link : gone) fs::remove(link, error);
}

namespace {

/// Writes where the provider connects. An old provider knows the first device only.
void write_socket(TreeWriter& tree, const DeviceDescription& device) {
  const fs::path base = device_folder(device);
  if (device.index == 0) {
    tree.file(base / "softhca_socket", device.socket_path);
    // The preload library of release 0.1 looks for the device there.
    const fs::path old = fs::path("devices/softhca") / device.name;
    if (!device.pci.empty())
      tree.link(old, parent_folder(device).lexically_relative(old.parent_path()));
  } else {
    tree.file(base / "softhca_device", std::to_string(device.index) + ' ' + device.socket_path);
  }
  tree.file(base / "softhca_protocol",
            std::to_string(device.protocol.oldest) + " " + std::to_string(device.protocol.newest));
}

void write_device(TreeWriter& tree, const DeviceDescription& device) {
  const fs::path parent = parent_folder(device);
  const fs::path verbs = parent / "infiniband_verbs" / device.name;
  tree.file(verbs / "ibdev", device.name);
  // /dev/null, or numbers for local use (admin-guide/devices.txt): libibverbs finds an imported
  // device by its number.
  tree.file(verbs / "dev", device.index == 0 ? "1:3" : "127:" + std::to_string(device.index));
  tree.file(verbs / "abi_version", "1");

  const fs::path base = device_folder(device);
  tree.file(base / "node_type", "1: CA");
  tree.file(base / "fw_ver", device.firmware);
  tree.file(base / "node_guid", guid_text(device.node_guid));
  tree.file(base / "sys_image_guid", guid_text(device.node_guid));
  tree.file(base / "hca_id", device.name);
  tree.file(base / "hca_type", device.board);
  tree.file(base / "hw_rev", std::to_string(device.hardware_version));
  tree.file(base / "board_id", device.board);
  write_socket(tree, device);
  for (const fs::path& folder : {verbs, base}) {
    tree.link(folder / "device", fs::path("../../..") / parent.filename());
    tree.link("class" / folder.lexically_relative(parent), "../.." / folder);
  }
  write_locality(tree, device);
  write_pci(tree, device);
  write_own_interface(tree, device);
}

}  // namespace

Outcome write_device_tree(const std::string& root, const DeviceDescriptions& devices, bool in_use) {
  std::error_code error;
  if (!in_use) fs::remove_all(root, error);
  TreeWriter tree(root, in_use ? TreeWriter::Way::kDiffering : TreeWriter::Way::kAtOnce);
  tree.file("class/infiniband_verbs/abi_version", "6");
  for (const DeviceDescription& device : devices) {
    write_device(tree, device);
    for (std::size_t number = 1; number <= device.ports.size(); ++number)
      write_port(tree, devices.front(), device, number);
    write_addresses(tree, device);
  }
  if (in_use)  // what the earlier adapter had
    for (const DeviceDescription& device : devices)
      AddressUpdate::remove_old(AddressUpdate::describe(root, device));
  link_real_devices(root);
  return tree.result();
}

}  // namespace softhca::control
