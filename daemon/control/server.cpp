#include "daemon/control/server.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "daemon/base/system_error.hpp"
#include "daemon/control/device_tree.hpp"
#include "daemon/control/guid.hpp"

namespace softhca::control {
namespace {

// How often the links of the ports are looked at.
constexpr int kLinkIntervalMs = 1000;

}  // namespace

Outcome Server::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!epoll_ || !signals_) return system_error("control thread");
  if (auto watched = watch(signals_.get(), &signal_watch_); !watched) return watched;
  for (const auto& tenant : adapter_.tenants)
    if (auto opened = open_tenant(*tenant); !opened) return opened;
  return {};
}

Outcome Server::open_tenant(engine::Tenant& tenant) {
  const resource::TenantConfig& config = adapter_.config.tenants[tenant.id.value];
  const std::string folder = adapter_.config.daemon.runtime_dir + "/" + tenant.name;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{"cannot make " + folder + ": " + error.message(), error.value()};

  Listener listener{.socket = {}, .path = folder + "/socket", .tenant = &tenant};
  auto socket =
      listen_at(listener.path, {config.socket.owner, config.socket.group, config.socket.mode});
  if (!socket) return socket.error();
  listener.socket = std::move(*socket);

  DeviceDescription device;
  device.name = adapter_.config.device.name;
  device.firmware = adapter_.config.device.firmware;
  device.board = "softhca";
  device.node_guid = node_guid(tenant);
  device.socket_path = listener.path;
  device.active = adapter_.link_up(tenant);
  link_up_.push_back(device.active);
  for (const auto& address : tenant.addresses) {
    const std::string interface =
        address.port ? adapter_.config.ports[address.port->value].interface : std::string();
    device.gids.push_back({address.gid, interface.empty() ? "lo" : interface});
  }
  if (auto written = write_device_tree(folder + "/sysfs", device); !written) return written;

  listeners_.push_back(std::move(listener));
  listener_watches_.push_back({Watch::Kind::kListener, &listeners_.back()});
  return watch(listeners_.back().socket.get(), &listener_watches_.back());
}

Outcome Server::watch(int fd, Watch* what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error("epoll_ctl");
  return {};
}

Outcome Server::run() {
  bool stop = false;
  while (!stop) {
    // One event at a time: handling one may end the session another is about.
    epoll_event event;
    const int timeout = adapter_.config.ports.empty() ? -1 : kLinkIntervalMs;
    const int count = ::epoll_wait(epoll_.get(), &event, 1, timeout);
    if (count < 0 && errno != EINTR) return system_error("epoll_wait");
    if (count == 1) handle(*static_cast<Watch*>(event.data.ptr), stop);
    if (count == 0) check_links();
  }
  sessions_.clear();
  for (const Listener& listener : listeners_) ::unlink(listener.path.c_str());
  return {};
}

void Server::handle(const Watch& what, bool& stop) {
  switch (what.kind) {
    case Watch::Kind::kListener:
      accept(*what.listener);
      break;
    case Watch::Kind::kSession:
      if (!what.session->serve()) end(*what.session);
      break;
    case Watch::Kind::kProcess:
      end(*what.session);
      break;
    case Watch::Kind::kSignal: {
      signalfd_siginfo info{};
      if (::read(signals_.get(), &info, sizeof info) != sizeof info) break;
      if (info.ssi_signo == SIGHUP) {
        spdlog::warn("SIGHUP: this version does not reload its configuration; restart it");
        break;
      }
      spdlog::info("{}: stopping", strsignal(static_cast<int>(info.ssi_signo)));
      stop = true;
      break;
    }
  }
}

void Server::accept(Listener& listener) {
  UniqueFd socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  const auto peer = peer_identity(socket.get());
  if (!peer || peer->pid == 0) {
    spdlog::warn("tenant {}: a process of another PID namespace cannot be reached",
                 listener.tenant->name);
    return;
  }
  if (sessions_.size() >= adapter_.config.pools.sessions) {
    spdlog::warn("tenant {}: process {} refused: all {} sessions are in use (pools.sessions)",
                 listener.tenant->name, peer->pid, sessions_.size());
    return;
  }
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, peer->pid, 0)));
  if (!pidfd) return;  // gone already

  sessions_.emplace_back();
  Entry& entry = sessions_.back();
  entry.session = std::make_unique<Session>(adapter_, *listener.tenant, std::move(socket), *peer,
                                            std::move(pidfd));
  entry.socket = {Watch::Kind::kSession, nullptr, entry.session.get()};
  entry.process = {Watch::Kind::kProcess, nullptr, entry.session.get()};
  if (!watch(entry.session->socket(), &entry.socket) ||
      !watch(entry.session->pidfd(), &entry.process))
    sessions_.pop_back();
}

void Server::check_links() {
  for (const auto& tenant : adapter_.tenants) {
    const bool up = adapter_.link_up(*tenant);
    if (up == link_up_[tenant->id.value]) continue;
    link_up_[tenant->id.value] = up;
    spdlog::info("tenant {}: link {}", tenant->name, up ? "up" : "down");
    const std::string folder = adapter_.config.daemon.runtime_dir + "/" + tenant->name;
    if (auto written = write_port_state(folder + "/sysfs", adapter_.config.device.name, up);
        !written)
      spdlog::warn("{}", written.error().message);
    for (const Entry& entry : sessions_)
      if (&entry.session->tenant() == tenant.get()) entry.session->report_link(up);
  }
}

/// The process has gone or broken the protocol. Closing its descriptors takes them out of epoll.
void Server::end(Session& session) {
  spdlog::debug("tenant {}: session of process {} ends", session.tenant().name, session.peer().pid);
  const auto entry = std::find_if(sessions_.begin(), sessions_.end(),
                                  [&](const Entry& e) { return e.session.get() == &session; });
  sessions_.erase(entry);
}

}  // namespace softhca::control
