// Sockets by which tenants ask for what is their own (mechanism A7): the protocol of the admin
// socket, with little of it and with narrow bounds, for a tenant may ask as often as it likes.
#include <sys/epoll.h>

#include <algorithm>

#include "daemon/control/server/server.hpp"

namespace softhca::control {
namespace {

// A request costs at most a step of the engine's books, some tens of microseconds. Who asks more
// often is answered later.
constexpr AdminSocket::Limits kLimits{
    .line = std::size_t{16} << 10,
    .clients = 4,
    .lines_per_tick = 20,
    .rpc = {.depth = 8, .batch = 1, .reply = std::size_t{1} << 20}};

}  // namespace

Outcome Server::open_desk(const engine::Tenant& tenant, const resource::SocketConfig& socket) {
  Desk& desk = desks_.emplace_back(tenant, kLimits);
  view_.add_own(desk.methods, tenant);
  if (own_methods_) own_methods_(desk.methods, tenant);
  desk.watch.desk = &desk;
  Outcome opened = desk.socket.open(folder_of(tenant) + "/control.sock", permissions_of(socket));
  if (opened) opened = watch(desk.socket.fd(), &desk.watch);
  if (!opened) desks_.pop_back();
  return opened;
}

void Server::close_desk(const engine::Tenant& tenant) {
  desks_.remove_if([&](const Desk& desk) { return desk.tenant == &tenant; });
}

bool Server::has_desk(const engine::Tenant& tenant) const {
  return std::any_of(desks_.begin(), desks_.end(),
                     [&](const Desk& desk) { return desk.tenant == &tenant; });
}

Outcome Server::permit_desk(const engine::Tenant& tenant, const resource::SocketConfig& socket) {
  return set_permissions(folder_of(tenant) + "/control.sock", given_permissions(socket));
}

void Server::serve_desk(Desk& desk) {
  desk.socket.serve();
  if (desk.socket.is_paused()) watch_desk(desk, false);
}

void Server::tick_desks() {
  for (Desk& desk : desks_) {
    const bool paused = desk.socket.is_paused();
    desk.socket.tick();
    if (paused) watch_desk(desk, true);
  }
}

void Server::watch_desk(Desk& desk, bool armed) {
  epoll_event event{};
  if (armed) event.events = EPOLLIN;
  event.data.ptr = &desk.watch;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, desk.socket.fd(), &event);
}

}  // namespace softhca::control
