// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/listeners.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/control_thread/process_name.hpp"
#include "daemon/device/adapter/control_clock.hpp"

namespace softhca::control {
namespace {

// Connections of a tenant beyond its sessions. By these, the daemon tells processes that all
// sessions are in use.
constexpr std::uint64_t kGreeting = 16;

}  // namespace

SocketPermissions permissions_of(const configuration::SocketConfig& socket) {
  return {socket.owner, socket.group, socket.mode};
}

/// Returns the permissions of an existing socket. It may have had another owner, so an owner or
/// group that is not configured becomes the daemon's.
SocketPermissions given_permissions(const configuration::SocketConfig& socket) {
  SocketPermissions permissions = permissions_of(socket);
  if (permissions.owner.empty()) permissions.owner = std::to_string(::geteuid());
  if (permissions.group.empty()) permissions.group = std::to_string(::getegid());
  return permissions;
}

std::string folder_of(const configuration::Config& config, const engine::Tenant& tenant) {
  return config.daemon.runtime_dir + "/" + tenant.name;
}

Outcome check_free(const configuration::Config& config, const KeptDescriptors& kept) {
  for (const configuration::TenantConfig& tenant : config.tenants) {
    const std::string path = config.daemon.runtime_dir + "/" + tenant.name + "/socket";
    if (is_earlier(kept, path)) continue;
    if (auto free = check_nobody_listens(path); !free) return free;
  }
  return {};
}

Outcome Listeners::open(engine::Tenant& tenant, const configuration::SocketConfig& socket) {
  const std::string folder = folder_of(adapter_.config, tenant);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{"cannot make " + folder + ": " + error.message(), error.value()};
  return open(folder + "/socket", socket, tenant, nullptr);
}

Outcome Listeners::open(engine::Tenant& tenant, engine::Level& level,
                        const configuration::SocketConfig& socket) {
  return open(socket_of(tenant, level), socket, tenant, &level);
}

Outcome Listeners::open(const std::string& path, const configuration::SocketConfig& socket,
                        engine::Tenant& tenant, engine::Level* level) {
  auto listening = take_up_or_listen(adapter_.kept, path, permissions_of(socket));
  if (!listening) return listening.error();
  Listener* listener = find(tenant, level);
  if (listener == nullptr) {
    listener = &listeners_.emplace_back();
    listener->path = path;
    listener->tenant = &tenant;
    listener->level = level;
    listener->watch.ready = [this, listener] { accept(*listener); };
  }
  listener->socket = PeerSocket(std::move(listening->socket), adapter_.blocking_calls, tenant.name);
  listener->kept = std::move(listening->kept);
  listener->armed = true;
  return loops_.watch(tenant, listener->socket.get(), listener->watch);
}

/// Returns the listener of a level or, if `level` is null, of the tenant itself.
Listener* Listeners::find(const engine::Tenant& tenant, const engine::Level* level) {
  for (Listener& listener : listeners_)
    if (listener.tenant == &tenant && listener.level == level) return &listener;
  return nullptr;
}

Listener* Listeners::find(const std::string& tenant, const std::string& level) {
  for (Listener& listener : listeners_)
    if (listener.tenant->name == tenant &&
        (listener.level != nullptr ? listener.level->name : "") == level)
      return &listener;
  return nullptr;
}

std::string Listeners::socket_of(const engine::Tenant& tenant, const engine::Level& level) const {
  return folder_of(adapter_.config, tenant) + "/" + level.name + ".socket";
}

void Listeners::close(Listener& listener) {
  if (!listener.socket) return;
  ::unlink(listener.path.c_str());
  loops_.unwatch(*listener.tenant, listener.socket.get());
  listener.kept = {};
  listener.socket.reset();
}

void Listeners::close(const engine::Tenant& tenant) {
  for (Listener& listener : listeners_)
    if (listener.tenant == &tenant) close(listener);
}

void Listeners::close(const engine::Level& level) {
  for (Listener& listener : listeners_)
    if (listener.level == &level) close(listener);
}

void Listeners::forget(const engine::Tenant& tenant) {
  listeners_.remove_if([&](const Listener& listener) { return listener.tenant == &tenant; });
}

void Listeners::forget(const engine::Level& level) {
  close(level);
  listeners_.remove_if([&](const Listener& listener) { return listener.level == &level; });
}

Outcome Listeners::permit(const engine::Tenant& tenant, const configuration::SocketConfig& socket) {
  return set_permissions(folder_of(adapter_.config, tenant) + "/socket", given_permissions(socket));
}

Outcome Listeners::permit(const engine::Tenant& tenant, const engine::Level& level,
                          const configuration::SocketConfig& socket) {
  return set_permissions(socket_of(tenant, level), given_permissions(socket));
}

std::uint64_t Listeners::connections(const engine::Tenant& tenant) const {
  std::uint64_t sum = 0;
  for (const Listener& listener : listeners_)
    if (listener.tenant == &tenant) sum += listener.connections;
  return sum;
}

void Listeners::accept(Listener& listener) {
  PeerSocket socket = listener.socket.sibling(
      UniqueFd(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  if (!socket) return accept_failed(listener, errno);
  const auto peer = peer_identity(socket.get());
  if (!peer) return complain(listener, strerror(errno));
  if (peer->pid == 0)
    return complain(listener, "a process of uid " + std::to_string(peer->uid) +
                                  " is in a PID namespace that the daemon cannot see; use the "
                                  "host's PID namespace");
  if (adapter_.blocking_calls.stuck(listener.tenant->name))
    return complain(listener, describe(*peer) +
                                  ": an earlier system call for this tenant has not returned: one "
                                  "of its processes passed a descriptor that blocks in close(), or "
                                  "keeps memory busy that the daemon must seal; end that process");
  // If all sessions are in use, the daemon tells a new process so when it greets. This bounds the
  // number of such processes.
  const std::uint64_t sessions =
      listener.tenant->control.accounts.limit(configuration::Kind::kSessions);
  if (listener.connections >= sessions + kGreeting)
    return complain(
        listener, describe(*peer) + ": the socket has " + std::to_string(listener.connections) +
                      " connections, the most with tenant.sessions = " + std::to_string(sessions) +
                      " (" + std::to_string(kGreeting) +
                      " more may wait for their refusal); raise tenant.sessions");
  accept_(listener, std::move(socket), *peer);
}

void Listeners::accept_failed(Listener& listener, int error) {
  const bool lacking = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!lacking) return;  // the process has gone, or a signal came
  complain(listener, strerror(error));
  // The connection stays in the queue, and the listener stays ready. The loop must not poll it all
  // the time.
  if (!spare_.refuse_one(listener.socket.get(), adapter_.blocking_calls, listener.tenant->name))
    arm(listener, false);
}

void Listeners::complain(Listener& listener, const std::string& why) {
  if (!listener.complaints.allows(now())) return;
  adapter_.journal.add({.kind = "session_refused", .tenant = listener.tenant->name, .text = why});
}

void Listeners::tick() {
  for (Listener& listener : listeners_)
    if (!listener.armed && listener.socket) arm(listener, true);
}

void Listeners::arm(Listener& listener, bool armed) {
  const Interest interest = armed ? Interest::kReadable : Interest::kNothing;
  if (loops_.arm(*listener.tenant, listener.socket.get(), listener.watch, interest))
    listener.armed = armed;
}

}  // namespace softhca::control
