// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/device_trees.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/device/adapter/device_ports.hpp"
#include "daemon/device/adapter/log.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/frontend/unix/device_tree/cdi_file.hpp"
#include "daemon/frontend/unix/server/listeners.hpp"

namespace softhca::control {
namespace {

void complain(const engine::Tenant& tenant, const Error& error) {
  log_line(spdlog::level::warn, {.tenant = tenant.name},
           "tenant " + tenant.name +
               ": device tree not updated (programs see old values): " + error.message);
}

}  // namespace

std::string DeviceTrees::path_of(const engine::Tenant& tenant) const {
  return folder_of(adapter_.config, tenant) + "/sysfs";
}

DeviceDescriptions DeviceTrees::describe(
    const engine::Tenant& tenant, const std::vector<engine::Tenant::Address>& addresses) const {
  using configuration::DeviceConfig;
  DeviceDescriptions all;
  for (const configuration::TenantDevice& is : adapter_.devices(tenant)) {
    const auto index = static_cast<std::uint8_t>(all.size());
    DeviceDescription& device = all.emplace_back();
    device.name = is.name;
    device.index = index;
    device.rate = configuration::codes_of(is.rate).text;
    device.pci = is.pci;
    device.numa = is.numa;
    device.vendor = DeviceConfig::kVendorId;
    device.part = DeviceConfig::kPartId;
    device.firmware = DeviceConfig::kFirmware;
    device.board = "softhca";
    device.hardware_version = DeviceConfig::kHardwareVersion;
    device.node_guid = adapter_.node_guid(tenant, index);
    device.socket_path = folder_of(adapter_.config, tenant) + "/socket";
    device.protocol = adapter_.protocol;
    device.ports.resize(ports_of(addresses, index));
    for (std::size_t i = 0; i < device.ports.size(); ++i) {
      const auto number = static_cast<std::uint8_t>(i + 1);
      DeviceDescription::Port& port = device.ports[i];
      port.active = adapter_.link_up(addresses, {index, number});
      for (const engine::Tenant::Address& address : gid_table(addresses, index, number))
        port.gids.push_back(
            {address.gid,
             address.port ? interface_of(adapter_.config.ports[address.port->value], address.gid)
                          : ""});
    }
  }
  return all;
}

Outcome DeviceTrees::make(engine::Tenant& tenant, bool in_use) {
  if (std::any_of(trees_.begin(), trees_.end(),
                  [&](const Tree& tree) { return tree.tenant == &tenant; }))
    return {};
  const std::string path = path_of(tenant);
  DeviceDescriptions devices = describe(tenant, tenant.addresses);
  // The first tick() tells what has changed since the earlier adapter. A port that is new may have
  // former addresses only, and go again before.
  if (in_use)
    for (DeviceDescription& device : devices)
      for (std::size_t i = 0; i < device.ports.size(); ++i)
        device.ports[i].active = read_port_state(path, device.name, i + 1).value_or(false);
  if (auto written = write_device_tree(path, devices, in_use); !written) return written;
  CounterFiles counters(path, devices.front().name);
  if (auto written = counters.update(tenant, adapter_.engine.ports); !written) return written;
  Tree& tree =
      trees_.emplace_back(Tree{.tenant = &tenant, .counters = std::move(counters), .links_up = {}});
  for (const DeviceDescription& device : devices)
    for (std::size_t i = 0; i < device.ports.size(); ++i)
      tree.links_up[{device.index, static_cast<std::uint8_t>(i + 1)}] = device.ports[i].active;
  return {};
}

void DeviceTrees::remove(const engine::Tenant& tenant) {
  trees_.remove_if([&](const Tree& tree) { return tree.tenant == &tenant; });
  remove_tenant_folder(folder_of(adapter_.config, tenant));
}

void DeviceTrees::remove() {
  while (!trees_.empty()) remove(*trees_.front().tenant);
  std::error_code error;
  if (cdi_file_written_)
    std::filesystem::remove(cdi_file_of(adapter_.config.daemon.runtime_dir), error);
  cdi_file_written_ = false;
}

void DeviceTrees::write_cdi_file() {
  CdiDescription description{.runtime_dir = adapter_.config.daemon.runtime_dir,
                             .libraries = adapter_.libraries,
                             .tenants = {}};
  for (const auto& tenant : adapter_.tenants)
    if (!tenant->control.leaving) description.tenants.push_back(tenant->name);
  const auto written = control::write_cdi_file(description);
  const std::string failure = written ? "" : written.error().message;
  if (written) cdi_file_written_ = true;
  if (!failure.empty() && failure != cdi_file_failure_)
    spdlog::info("container engines get no cdi.json: {}", failure);
  cdi_file_failure_ = failure;
}

Expected<AddressUpdate> DeviceTrees::prepare_addresses(
    const engine::Tenant& tenant, const std::vector<engine::Tenant::Address>& addresses) const {
  return AddressUpdate::prepare(path_of(tenant), describe(tenant, addresses));
}

void DeviceTrees::check_links() {
  for (Tree& tree : trees_) check_link(tree);
}

void DeviceTrees::tick() {
  check_links();
  for (Tree& tree : trees_) write_counters(tree);
  check_devices();
}

void DeviceTrees::check_link(Tree& tree) {
  engine::Tenant& tenant = *tree.tenant;
  const auto before = std::exchange(tree.links_up, {});
  std::uint8_t device = 0;
  for (const configuration::TenantDevice& is : adapter_.devices(tenant)) {
    for (std::uint8_t port = 1; port <= ports_of(tenant.addresses, device); ++port) {
      const bool up = adapter_.link_up(tenant.addresses, {device, port});
      tree.links_up[{device, port}] = up;
      const auto was = before.find({device, port});
      if (was != before.end() && was->second == up) continue;
      if (auto written = write_port_state(path_of(tenant), is.name, port, up); !written)
        complain(tenant, written.error());
      link_changed_(tenant, device, port, up);
      if (was != before.end()) note_link(tenant, device, port, up);
    }
    ++device;
  }
  for (const auto& [port, was_up] : before)  // that a reload has removed
    if (was_up && !tree.links_up.contains(port))
      link_changed_(tenant, port.first, port.second, false);
}

/// Counts and reports that the link of a port went up or down.
void DeviceTrees::note_link(engine::Tenant& tenant, std::uint8_t device, std::uint8_t port,
                            bool up) {
  if (!up) tenant.control.link_downed.add();
  std::string text = up ? "link up" : "link down";
  if (ports_of(tenant.addresses, device) > 1 ||
      !adapter_.name_among_several(tenant, device).empty())
    text += " of " + adapter_.devices(tenant)[device].name + " port " + std::to_string(port);
  adapter_.journal.add({.kind = up ? "link_up" : "link_down", .tenant = tenant.name, .text = text});
}

/// Writes the counters. Reports a full disk once, and again only after a success in between.
void DeviceTrees::write_counters(Tree& tree) {
  const auto written = tree.counters.update(*tree.tenant, adapter_.engine.ports);
  if (!written && !tree.counters_fail) complain(*tree.tenant, written.error());
  tree.counters_fail = !written;
}

/// Updates the links to the kernel's adapters, which may come and go while the daemon runs.
void DeviceTrees::check_devices() {
  auto found = real_devices();
  if (found == real_devices_) return;
  real_devices_ = std::move(found);
  for (const auto& tenant : adapter_.tenants) link_real_devices(path_of(*tenant));
}

}  // namespace softhca::control
