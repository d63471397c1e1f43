// SPDX-License-Identifier: Apache-2.0

// The sockets and device trees of tenants, while the server runs.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "daemon/base/system_error.hpp"
#include "daemon/device/adapter/levels.hpp"
#include "daemon/device/adapter/log.hpp"
#include "daemon/engine/requests/level_settings.hpp"
#include "daemon/frontend/unix/server/server.hpp"

namespace softhca::control {
namespace {

/// Makes the runtime directory. Where any user may make folders, as in /tmp, it must belong to the
/// daemon's user: another owner could put links in place of the daemon's files.
Outcome make_runtime_dir(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(name, error);
  if (error) return Error{"cannot make " + name + ": " + error.message(), error.value()};
  fs::path path = fs::absolute(name).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  struct stat folder, parent;
  if (::lstat(path.c_str(), &folder) != 0 || ::stat(path.parent_path().c_str(), &parent) != 0)
    return system_error(name);
  const bool ours = S_ISDIR(folder.st_mode) && folder.st_uid == ::geteuid();
  if (ours || (parent.st_mode & S_IWOTH) == 0) return {};
  return Error{name +
                   " is not a directory of the daemon's user, and all users may write to its "
                   "parent; remove it or choose another daemon.runtime_dir",
               EPERM};
}

}  // namespace

/// Makes the runtime directory, and removes what an earlier daemon left there.
Outcome Server::prepare_folder() {
  if (auto made = make_runtime_dir(adapter_.config.daemon.runtime_dir); !made) return made;
  std::vector<std::string> names;
  for (const auto& tenant : adapter_.tenants) names.push_back(tenant->name);
  remove_stale_tenants(adapter_.config.daemon.runtime_dir, names);
  return {};
}

Outcome Server::open_tenants() {
  for (const auto& tenant : adapter_.tenants) {
    const configuration::TenantConfig& settings = adapter_.settings(*tenant);
    if (auto opened = open_tenant(*tenant, settings.socket); !opened) return opened;
    configure_connections(*tenant, settings);
  }
  for (const auto& tenant : adapter_.tenants)
    for (const auto& level : tenant->levels) {
      const auto* settings = settings_of(adapter_.settings(*tenant), *level);
      if (!settings->socket) continue;
      if (auto opened = listeners_.open(*tenant, *level, *settings->socket); !opened) return opened;
    }
  for (const auto& tenant : adapter_.tenants)
    if (may_divide(adapter_.settings(*tenant)))
      if (auto opened = control_sockets_.open(*tenant, adapter_.settings(*tenant).control); !opened)
        return opened;
  return {};
}

Outcome Server::open_tenant(engine::Tenant& tenant, const configuration::SocketConfig& socket) {
  const bool in_use = is_earlier(adapter_.kept, folder_of(adapter_.config, tenant) + "/socket");
  if (auto opened = listeners_.open(tenant, socket); !opened) return opened;
  if (auto made = device_trees_.make(tenant, in_use); !made) {
    listeners_.close(tenant);
    listeners_.forget(tenant);
    return made;
  }
  if (connections_.is_retired(tenant)) {  // it comes back
    channels_.end(tenant, TenantChannel::Kind::kEvents, Turn::endless());
    connections_.remove(tenant);
  }
  if (connections_.find(tenant) != nullptr) return {};
  return connections_.add(tenant);
}

void Server::close_tenant(const engine::Tenant& tenant) {
  control_sockets_.close(tenant);
  listeners_.close(tenant);
}

void Server::forget_tenant(const engine::Tenant& tenant) {
  channels_.end(tenant, TenantChannel::Kind::kEvents, Turn::endless());
  channels_.end(tenant, TenantChannel::Kind::kDatagrams, Turn::endless());
  connections_.remove(tenant);
  listeners_.forget(tenant);
  device_trees_.remove(tenant);
  adapter_.blocking_calls.forget(tenant.name);
}

void Server::show_addresses(const engine::Tenant& tenant, AddressUpdate& update) {
  if (const auto applied = update.apply(); !applied)
    log_line(spdlog::level::err, {.tenant = tenant.name},
             "tenant " + tenant.name +
                 ": device tree not updated (programs see old values): " + applied.error().message);
  sessions_.report_addresses(tenant);
  connections_.addresses_changed(tenant);
}

Outcome Server::serve_connections(engine::Tenant& tenant,
                                  const configuration::TenantConfig& settings) {
  if (connections_.find(tenant) != nullptr) return {};
  if (auto added = connections_.add(tenant); !added) return added;
  configure_connections(tenant, settings);
  return {};
}

void Server::rename_level(const engine::Tenant& tenant, const std::string& from,
                          const std::string& to) {
  if (auto* service = connections_.find(tenant)) service->rename_level(from, to);
  configure_connections(tenant, adapter_.settings(tenant));
}

std::uint64_t Server::connections(const engine::Tenant& tenant) const {
  return listeners_.connections(tenant) + channels_.count(tenant, TenantChannel::Kind::kEvents) +
         channels_.count(tenant, TenantChannel::Kind::kDatagrams);
}

void Server::end_sessions(const engine::Tenant& tenant) {
  sessions_.end(tenant);
  channels_.end(tenant);
}

}  // namespace softhca::control
