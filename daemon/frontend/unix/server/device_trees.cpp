// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/device_trees.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/device/adapter/gid_table.hpp"
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

DeviceDescription DeviceTrees::describe(
    const engine::Tenant& tenant, const std::vector<engine::Tenant::Address>& addresses) const {
  DeviceDescription device;
  device.name = adapter_.config.device.name;
  device.firmware = configuration::DeviceConfig::kFirmware;
  device.board = "softhca";
  device.hardware_version = configuration::DeviceConfig::kHardwareVersion;
  device.node_guid = adapter_.node_guid(tenant);
  device.socket_path = folder_of(adapter_.config, tenant) + "/socket";
  device.protocol = adapter_.protocol;
  device.active = adapter_.link_up(tenant);
  for (std::size_t index = 0; index < gid_entries(addresses); ++index) {
    const engine::Tenant::Address& address = gid_entry(addresses, index);
    device.gids.push_back(
        {address.gid,
         address.port ? interface_of(adapter_.config.ports[address.port->value]) : ""});
  }
  return device;
}

Outcome DeviceTrees::make(engine::Tenant& tenant) {
  if (std::any_of(trees_.begin(), trees_.end(),
                  [&](const Tree& tree) { return tree.tenant == &tenant; }))
    return {};
  const std::string path = path_of(tenant);
  if (auto written = write_device_tree(path, describe(tenant, tenant.addresses)); !written)
    return written;
  CounterFiles counters(path, adapter_.config.device.name);
  if (auto written = counters.update(tenant, adapter_.engine.ports); !written) return written;
  trees_.push_back(
      {.tenant = &tenant, .counters = std::move(counters), .link_up = adapter_.link_up(tenant)});
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

void DeviceTrees::tick() {
  for (Tree& tree : trees_) check_link(tree);
  for (Tree& tree : trees_) write_counters(tree);
  check_devices();
}

void DeviceTrees::check_link(Tree& tree) {
  engine::Tenant& tenant = *tree.tenant;
  const bool up = adapter_.link_up(tenant);
  if (up == tree.link_up) return;
  tree.link_up = up;
  if (!up) tenant.control.link_downed.add();
  adapter_.journal.add({.kind = up ? "link_up" : "link_down",
                        .tenant = tenant.name,
                        .text = up ? "link up" : "link down"});
  if (auto written = write_port_state(path_of(tenant), adapter_.config.device.name, up); !written)
    complain(tenant, written.error());
  link_changed_(tenant, up);
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
