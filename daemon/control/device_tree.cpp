#include "daemon/control/device_tree.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace softhca::control {
namespace {

namespace fs = std::filesystem;

class TreeWriter {
 public:
  explicit TreeWriter(fs::path root) : root_(std::move(root)) {}

  void file(const fs::path& name, const std::string& content) {
    if (!failure_.empty()) return;
    std::error_code error;
    fs::create_directories((root_ / name).parent_path(), error);
    std::ofstream out(root_ / name, std::ios::trunc);
    out << content << '\n';
    out.close();
    if (error || !out) failure_ = (root_ / name).string();
  }

  /// Links every entry of a real /sys/class folder that the tree does not have itself.
  void link_real_entries(const fs::path& folder) {
    std::error_code error;
    const fs::path real = fs::path("/sys") / folder;
    for (const auto& entry : fs::directory_iterator(real, error)) {
      const fs::path link = root_ / folder / entry.path().filename();
      if (!fs::exists(fs::symlink_status(link, error)))
        fs::create_symlink(real / entry.path().filename(), link, error);
    }
  }

  const std::string& failure() const { return failure_; }

 private:
  fs::path root_;
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

fs::path port_folder(const std::string& device) {
  return fs::path("class/infiniband") / device / "ports/1";
}

void write_state(TreeWriter& tree, const std::string& device, bool active) {
  tree.file(port_folder(device) / "state", active ? "4: ACTIVE" : "1: DOWN");
  tree.file(port_folder(device) / "phys_state", active ? "5: LinkUp" : "3: Disabled");
}

Outcome result_of(const TreeWriter& tree) {
  if (tree.failure().empty()) return {};
  return Error{"cannot write " + tree.failure() + ": check that runtime_dir is writable", EIO};
}

}  // namespace

Outcome write_port_state(const std::string& root, const std::string& device, bool active) {
  TreeWriter tree(root);
  write_state(tree, device, active);
  return result_of(tree);
}

Outcome write_device_tree(const std::string& root, const DeviceDescription& device) {
  std::error_code error;
  fs::remove_all(root, error);
  TreeWriter tree(root);

  const fs::path verbs = "class/infiniband_verbs";
  tree.file(verbs / "abi_version", "6");
  tree.file(verbs / device.name / "ibdev", device.name);
  tree.file(verbs / device.name / "dev", "1:3");
  tree.file(verbs / device.name / "abi_version", "1");

  const fs::path base = fs::path("class/infiniband") / device.name;
  tree.file(base / "node_type", "1: CA");
  tree.file(base / "node_guid", guid_text(device.node_guid));
  tree.file(base / "sys_image_guid", guid_text(device.node_guid));
  tree.file(base / "fw_ver", device.firmware);
  tree.file(base / "hca_id", device.name);
  tree.file(base / "board_id", device.board);
  tree.file(base / "softhca_socket", device.socket_path);

  const fs::path port = port_folder(device.name);
  tree.file(port / "link_layer", "Ethernet");
  write_state(tree, device.name, device.active);
  tree.file(port / "rate", "100 Gb/sec (4X EDR)");
  tree.file(port / "lid", "0x0");
  tree.file(port / "sm_lid", "0x0");
  tree.file(port / "cap_mask", "0x04010000");
  tree.file(port / "pkeys/0", "0xffff");
  for (std::size_t i = 0; i < device.gids.size(); ++i) {
    const std::string index = std::to_string(i);
    tree.file(port / "gids" / index, gid_text(device.gids[i].gid));
    tree.file(port / "gid_attrs/types" / index, "RoCE v2");
    tree.file(port / "gid_attrs/ndevs" / index, device.gids[i].interface);
  }
  tree.link_real_entries("class/infiniband");
  tree.link_real_entries(verbs);

  return result_of(tree);
}

}  // namespace softhca::control
