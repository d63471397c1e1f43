// Tenants as the server knows them: their sockets and device trees, while it runs.
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "daemon/control/adapter/setup.hpp"
#include "daemon/control/server/server.hpp"

namespace softhca::control {

SocketPermissions permissions_of(const resource::SocketConfig& socket) {
  return {socket.owner, socket.group, socket.mode};
}

/// Of one that there is: it may have been somebody else's.
SocketPermissions given_permissions(const resource::SocketConfig& socket) {
  SocketPermissions permissions = permissions_of(socket);
  if (permissions.owner.empty()) permissions.owner = std::to_string(::geteuid());
  if (permissions.group.empty()) permissions.group = std::to_string(::getegid());
  return permissions;
}

std::string Server::folder_of(const engine::Tenant& tenant) const {
  return adapter_.config.daemon.runtime_dir + "/" + tenant.name;
}

std::string Server::tree_of(const engine::Tenant& tenant) const {
  return folder_of(tenant) + "/sysfs";
}

Server::Listener* Server::listener_of(const engine::Tenant& tenant) {
  for (Listener& listener : listeners_)
    if (listener.tenant == &tenant && listener.level == nullptr) return &listener;
  return nullptr;
}

const Server::Listener* Server::listener_of(const engine::Tenant& tenant) const {
  for (const Listener& listener : listeners_)
    if (listener.tenant == &tenant && listener.level == nullptr) return &listener;
  return nullptr;
}

DeviceDescription Server::describe(const engine::Tenant& tenant,
                                   const std::vector<engine::Tenant::Address>& addresses) const {
  DeviceDescription device;
  device.name = adapter_.config.device.name;
  device.firmware = adapter_.config.device.firmware;
  device.board = "softhca";
  device.hardware_version = adapter_.config.device.hardware_version;
  device.node_guid = adapter_.node_guid(tenant);
  device.socket_path = folder_of(tenant) + "/socket";
  device.active = adapter_.link_up(tenant);
  for (const auto& address : addresses)
    device.gids.push_back(
        {address.gid,
         address.port ? interface_of(adapter_.config.ports[address.port->value]) : "lo"});
  return device;
}

Outcome Server::open_tenant(engine::Tenant& tenant, const resource::SocketConfig& socket) {
  const std::string folder = folder_of(tenant);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{"cannot make " + folder + ": " + error.message(), error.value()};

  auto listening = listen_at(folder + "/socket", permissions_of(socket));
  if (!listening) return listening.error();
  Listener* listener = listener_of(tenant);
  if (listener == nullptr) {
    // Programs of one that was closed go on using its tree.
    auto written = write_device_tree(tree_of(tenant), describe(tenant, tenant.addresses));
    CounterFiles counters(tree_of(tenant), adapter_.config.device.name);
    if (written) written = counters.update(tenant, adapter_.engine.ports());
    if (!written) {
      ::unlink((folder + "/socket").c_str());
      return written;
    }
    listener = &listeners_.emplace_back();
    listener->counters = std::move(counters);
    listener->path = folder + "/socket";
    listener->tenant = &tenant;
    listener->watch.listener = listener;
    listener->link_up = adapter_.link_up(tenant);
  }
  listener->socket = std::move(*listening);
  listener->armed = true;
  if (connections_.is_retired(tenant)) {  // it comes back
    end_event_channels(tenant);
    connections_.remove(tenant);
  }
  if (connections_.find(tenant) == nullptr)
    if (auto added = connections_.add(tenant); !added) return added;
  return watch(listener->socket.get(), &listener->watch);
}

/// Closing the descriptor takes it out of epoll.
void Server::close_tenant(const engine::Tenant& tenant) {
  close_desk(tenant);
  for (Listener& listener : listeners_) {
    if (listener.tenant != &tenant || !listener.socket) continue;
    ::unlink(listener.path.c_str());
    listener.socket.reset();
  }
}

void Server::forget_tenant(const engine::Tenant& tenant) {
  end_channels(tenant);
  connections_.remove(tenant);
  listeners_.remove_if([&](const Listener& listener) { return listener.tenant == &tenant; });
  remove_tenant_folder(folder_of(tenant));
}

Outcome Server::permit(const engine::Tenant& tenant, const resource::SocketConfig& socket) {
  return set_permissions(folder_of(tenant) + "/socket", given_permissions(socket));
}

Expected<AddressUpdate> Server::prepare_addresses(
    const engine::Tenant& tenant, const std::vector<engine::Tenant::Address>& addresses) const {
  return AddressUpdate::prepare(tree_of(tenant), describe(tenant, addresses));
}

void Server::show_addresses(const engine::Tenant& tenant, AddressUpdate& update) {
  if (const auto applied = update.apply(); !applied) spdlog::error("{}", applied.error().message);
  for (const Entry& entry : sessions_)
    if (&entry.session->tenant() == &tenant) entry.session->report_addresses();
  connections_.addresses_changed(tenant);
}

Outcome Server::serve_connections(engine::Tenant& tenant, const resource::TenantConfig& settings) {
  if (connections_.find(tenant) != nullptr) return {};
  if (auto added = connections_.add(tenant); !added) return added;
  configure_connections(tenant, settings);
  return {};
}

void Server::configure_connections(const engine::Tenant& tenant,
                                   const resource::TenantConfig& settings) {
  connections_.configure(tenant, settings);
}

std::uint64_t Server::connections(const engine::Tenant& tenant) const {
  using Kind = TenantChannel::Kind;
  return sessions(tenant) + connections(tenant, Kind::kEvents) +
         connections(tenant, Kind::kDatagrams);
}

std::uint64_t Server::connections(const engine::Tenant& tenant, TenantChannel::Kind kind) const {
  const auto is_of = [&](const ChannelEntry& entry) {
    return &entry.channel->tenant() == &tenant && entry.channel->kind() == kind;
  };
  return static_cast<std::uint64_t>(std::count_if(channels_.begin(), channels_.end(), is_of));
}

std::uint64_t Server::sessions(const engine::Tenant& tenant) const {
  std::uint64_t sum = 0;
  for (const Listener& listener : listeners_)
    if (listener.tenant == &tenant) sum += listener.connections;
  return sum;
}

std::uint32_t Server::oldest_session(const engine::Tenant& tenant) const {
  std::uint32_t oldest = adapter_.next_session;
  for (const Entry& entry : sessions_) {
    const std::uint32_t id = entry.session->holdings().id;
    if (&entry.session->tenant() == &tenant && id != 0) oldest = std::min(oldest, id);
  }
  return oldest;
}

void Server::end_sessions(const engine::Tenant& tenant) {
  for (auto entry = sessions_.begin(); entry != sessions_.end();) {
    Entry& ending = *entry++;
    if (&ending.session->tenant() == &tenant) end(ending);
  }
  end_channels(tenant);
}

}  // namespace softhca::control
