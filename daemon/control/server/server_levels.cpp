// Sockets of levels: whoever comes by one belongs to that level.
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/control/server/server.hpp"

namespace softhca::control {

Server::Listener* Server::listener_of(const engine::Level& level) {
  for (Listener& listener : listeners_)
    if (listener.level == &level) return &listener;
  return nullptr;
}

std::string Server::socket_of(const engine::Tenant& tenant, const engine::Level& level) const {
  return folder_of(tenant) + "/" + level.name + ".socket";
}

Outcome Server::open_level(engine::Tenant& tenant, engine::Level& level,
                           const resource::SocketConfig& socket) {
  const std::string path = socket_of(tenant, level);
  auto listening = listen_at(path, permissions_of(socket));
  if (!listening) return listening.error();
  Listener* listener = listener_of(level);
  if (listener == nullptr) {
    listener = &listeners_.emplace_back();
    listener->path = path;
    listener->tenant = &tenant;
    listener->level = &level;
    listener->watch.listener = listener;
  }
  listener->socket = std::move(*listening);
  listener->armed = true;
  return watch(listener->socket.get(), &listener->watch);
}

void Server::close_level(const engine::Level& level) {
  Listener* listener = listener_of(level);
  if (listener == nullptr || !listener->socket) return;
  ::unlink(listener->path.c_str());
  listener->socket.reset();
}

void Server::forget_level(const engine::Level& level) {
  close_level(level);
  listeners_.remove_if([&](const Listener& listener) { return listener.level == &level; });
}

Outcome Server::permit(const engine::Tenant& tenant, const engine::Level& level,
                       const resource::SocketConfig& socket) {
  return set_permissions(socket_of(tenant, level), given_permissions(socket));
}

bool Server::is_of(const Entry& entry, const engine::Level& level) {
  return entry.listener->level == &level || entry.session->holdings().level == &level;
}

std::uint64_t Server::connections(const engine::Level& level) const {
  std::uint64_t count = 0;
  for (const Entry& entry : sessions_) count += is_of(entry, level);
  return count;
}

std::uint64_t Server::undivided_sessions(const engine::Tenant& tenant) const {
  std::uint64_t count = 0;
  for (const Entry& entry : sessions_) {
    const Session::Holdings holdings = entry.session->holdings();
    count += &entry.session->tenant() == &tenant && holdings.id != 0 && holdings.level == nullptr;
  }
  return count;
}

void Server::end_sessions(const engine::Level& level) {
  for (auto entry = sessions_.begin(); entry != sessions_.end();) {
    Entry& ending = *entry++;
    if (is_of(ending, level)) end(ending);
  }
}

}  // namespace softhca::control
