#include "daemon/control/server/server.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/control/adapter/clock.hpp"
#include "daemon/control/device/device_tree.hpp"

namespace softhca::control {
namespace {

using Clock = std::chrono::steady_clock;

// How often the links of the ports and the kernel's adapters are looked at.
constexpr auto kTick = std::chrono::seconds(1);
// And, as the daemon ends, whether its programs have cleaned up.
constexpr auto kLeaveStep = std::chrono::milliseconds(50);
// Connections of a tenant beyond its sessions: those that are to be told that there are too many.
constexpr std::uint64_t kGreeting = 16;

int milliseconds_until(Time time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

Server::Server(Adapter& adapter, GeneralServices& general_services,
               GeneralServices& shared_datagrams)
    : adapter_(adapter),
      general_services_(general_services),
      shared_datagrams_(shared_datagrams),
      connections_(adapter, general_services),
      datagram_clients_(adapter, general_services, shared_datagrams),
      view_(
          adapter, [this] { return sessions(); },
          [this](const engine::Tenant& tenant) { return connections_view_.limits(tenant); }),
      connections_view_(adapter, connections_, general_services, shared_datagrams) {
  view_.add_to(methods_);
  connections_view_.add_to(methods_);
}

Outcome Server::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!epoll_ || !signals_) return system_error("control thread");
  if (auto watched = watch(signals_.get(), &signal_watch_); !watched) return watched;
  for (const GeneralServices* services : {&general_services_, &shared_datagrams_})
    if (auto watched = watch(services->event_fd(), &datagram_watch_); !watched) return watched;
  std::vector<std::string> names;
  for (const auto& tenant : adapter_.tenants) names.push_back(tenant->name);
  remove_stale_tenants(adapter_.config.daemon.runtime_dir, names);
  for (const auto& tenant : adapter_.tenants) {
    if (auto opened = open_tenant(*tenant, adapter_.settings(*tenant).socket); !opened)
      return opened;
    configure_connections(*tenant, adapter_.settings(*tenant));
  }
  for (const auto& tenant : adapter_.tenants)
    for (const auto& level : tenant->levels) {
      const auto* settings = settings_of(adapter_.settings(*tenant), *level);
      if (!settings->socket) continue;
      if (auto opened = open_level(*tenant, *level, *settings->socket); !opened) return opened;
    }
  for (const auto& tenant : adapter_.tenants)
    if (!tenant->levels.empty())
      if (auto opened = open_desk(*tenant, adapter_.settings(*tenant).control); !opened)
        return opened;
  if (auto opened = open_admin(); !opened) return opened;
  real_devices_ = real_devices();
  connections_.tick();
  return {};
}

Outcome Server::open_admin() {
  const resource::SocketConfig& socket = adapter_.config.admin.socket;
  const std::string path = adapter_.config.daemon.runtime_dir + "/admin.sock";
  if (auto opened = admin_.open(path, {socket.owner, socket.group, socket.mode}); !opened)
    return opened;
  return watch(admin_.fd(), &admin_watch_);
}

std::vector<const Session*> Server::sessions() const {
  std::vector<const Session*> out;
  for (const Entry& entry : sessions_) out.push_back(entry.session.get());
  return out;
}

/// For the operator, as long as the process can be asked its name.
void Server::note(const Session& session, const char* kind, const char* what) {
  const auto process = static_cast<std::uint32_t>(session.peer().pid);
  adapter_.journal.add({.kind = kind,
                        .tenant = session.tenant().name,
                        .text = "process " + std::to_string(process) + " " + what,
                        .process = process});
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
  Time next_tick = now() + kTick;
  while (!stop) {
    if (auto done = step(next_tick, stop); !done) return done;
    if (now() < next_tick) continue;  // however busy the tenants keep us
    tick();
    next_tick = now() + kTick;
  }
  if (auto done = take_leave(); !done) return done;
  channels_.clear();
  sessions_.clear();
  desks_.clear();
  for (const Listener& listener : listeners_)
    remove_tenant_folder(adapter_.config.daemon.runtime_dir + "/" + listener.tenant->name);
  return {};
}

Outcome Server::step(Time due, bool& stop) {
  // One event at a time: handling one may end the session another is about.
  epoll_event event;
  due = std::min(due, connections_.next_deadline());
  const int count =
      ::epoll_wait(epoll_.get(), &event, 1, datagrams_left_ ? 0 : milliseconds_until(due));
  if (count < 0 && errno != EINTR) return system_error("epoll_wait");
  if (count == 1) handle(*static_cast<Watch*>(event.data.ptr), stop);
  if (datagrams_left_) serve_datagrams();
  if (now() >= connections_.next_deadline()) connections_.expire(now());
  return {};
}

/// Nobody comes any more. Programs that have something of rdma_cm hear that the device is removed,
/// and may clean up, with verbs too. A second signal ends it at once.
Outcome Server::take_leave() {
  for (const auto& tenant : adapter_.tenants) close_tenant(*tenant);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, admin_.fd(), nullptr);
  reload_ = nullptr;
  for (bool stop = false; !connections_.retire() && !stop;)
    if (auto done = step(now() + kLeaveStep, stop); !done) return done;
  return {};
}

void Server::handle(const Watch& what, bool& stop) {
  switch (what.kind) {
    case Watch::Kind::kListener:
      accept(*what.listener);
      break;
    case Watch::Kind::kSession:
      serve(*what.entry);
      break;
    case Watch::Kind::kProcess:
      end(*what.entry);
      break;
    case Watch::Kind::kChannel:
      serve_channel(*what.channel);
      break;
    case Watch::Kind::kDatagrams:
      serve_datagrams();
      break;
    case Watch::Kind::kAdmin:
      admin_.serve();
      break;
    case Watch::Kind::kDesk:
      serve_desk(*what.desk);
      break;
    case Watch::Kind::kSignal: {
      signalfd_siginfo info{};
      if (::read(signals_.get(), &info, sizeof info) != sizeof info) break;
      if (info.ssi_signo == SIGHUP) {
        if (reload_) reload_();
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
  if (!socket) return accept_failed(listener, errno);
  const auto peer = peer_identity(socket.get());
  if (!peer || peer->pid == 0)
    return complain(listener, "a process of another PID namespace cannot be reached");
  // Whoever comes when all sessions are taken is told so when it greets, but not any number.
  if (listener.connections >=
      listener.tenant->accounts.limit(resource::Kind::kSessions) + kGreeting)
    return complain(listener, "it has " + std::to_string(listener.connections) +
                                  " connections (tenant.sessions)");
  add_session(listener, std::move(socket), *peer);
}

void Server::accept_failed(Listener& listener, int error) {
  const bool lacking = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!lacking) return;  // the process has gone, or a signal came
  complain(listener, strerror(error));
  // The connection stays in the queue, and the listener ready for it: not to be looked at all the
  // time.
  if (!spare_.refuse_one(listener.socket.get())) arm(listener, false);
}

void Server::add_session(Listener& listener, UniqueFd socket, const PeerIdentity& peer) {
  engine::Tenant& tenant = *listener.tenant;
  auto descriptors = tenant.accounts.take(resource::Kind::kDescriptors, Session::kDescriptors);
  const bool charged = static_cast<bool>(descriptors);
  if (!charged) {
    complain(listener, "all its descriptors are in use (tenant.descriptors)");
    if (std::exchange(listener.telling, true)) return;
  }
  UniqueFd pidfd = peer_pidfd(socket.get(), peer);
  if (!pidfd) {
    if (!charged) listener.telling = false;
    if (errno != ESRCH) complain(listener, strerror(errno));
    return;
  }
  Entry& entry = sessions_.emplace_back();
  entry.self = std::prev(sessions_.end());
  entry.listener = &listener;
  entry.charged = charged;
  ++listener.connections;
  entry.session = std::make_unique<Session>(adapter_, shared_objects_, tenant, std::move(socket),
                                            peer, std::move(pidfd), std::move(descriptors));
  entry.session->set_socket_level(listener.level);
  entry.socket = {Watch::Kind::kSession, nullptr, &entry};
  entry.process = {Watch::Kind::kProcess, nullptr, &entry};
  if (!watch(entry.session->socket(), &entry.socket) ||
      !watch(entry.session->pidfd(), &entry.process)) {
    complain(listener, strerror(errno));
    return end(entry);
  }
}

void Server::serve(Entry& entry) {
  Session& session = *entry.session;
  const bool greeted = session.greeted();
  const bool goes_on = session.serve();
  if (!greeted && session.greeted()) note(session, "session_opened", "connected");
  if (auto request = session.become_channel()) {
    engine::Tenant& tenant = *entry.listener->tenant;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, request->socket.get(), nullptr);
    end(entry);
    return add_channel(tenant, std::move(*request));
  }
  if (!goes_on) end(entry);
}

void Server::complain(Listener& listener, const std::string& why) {
  if (!listener.complaints.allows(now())) return;
  adapter_.journal.add({.kind = "session_refused", .tenant = listener.tenant->name, .text = why});
  spdlog::warn("tenant {}: a connection is refused: {}", listener.tenant->name, why);
}

void Server::tick() {
  admin_.tick();
  tick_desks();
  check_links();
  write_counters();
  check_devices();
  tick_datagrams(general_services_);
  tick_datagrams(shared_datagrams_);
  connections_.tick();
  view_.take_engine_events();
  if (ticked_) ticked_();
  for (Listener& listener : listeners_)
    if (!listener.armed && listener.socket) arm(listener, true);
}

void Server::arm(Listener& listener, bool armed) {
  epoll_event event{};
  if (armed) event.events = EPOLLIN;
  event.data.ptr = &listener.watch;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener.socket.get(), &event) == 0)
    listener.armed = armed;
}

/// Adapters of the kernel may come and go while we run.
void Server::check_devices() {
  auto found = real_devices();
  if (found == real_devices_) return;
  real_devices_ = std::move(found);
  for (const auto& tenant : adapter_.tenants) link_real_devices(tree_of(*tenant));
}

void Server::check_links() {
  for (Listener& listener : listeners_) {
    if (listener.level != nullptr) continue;  // as its tenant
    const engine::Tenant& tenant = *listener.tenant;
    const bool up = adapter_.link_up(tenant);
    if (up == listener.link_up) continue;
    listener.link_up = up;
    if (!up) listener.tenant->link_downed.add();
    spdlog::info("tenant {}: link {}", tenant.name, up ? "up" : "down");
    if (auto written = write_port_state(tree_of(tenant), adapter_.config.device.name, up); !written)
      spdlog::warn("{}", written.error().message);
    for (const Entry& entry : sessions_)
      if (&entry.session->tenant() == &tenant) entry.session->report_link(up);
  }
}

/// A full disk is said once, and again when it was not in between.
void Server::write_counters() {
  for (Listener& listener : listeners_) {
    if (!listener.counters) continue;
    const auto written = listener.counters->update(*listener.tenant, adapter_.engine.ports());
    if (!written && !listener.counters_fail) spdlog::warn("{}", written.error().message);
    listener.counters_fail = !written;
  }
}

/// The process has gone or broken the protocol. Closing its descriptors takes them out of epoll.
void Server::end(Entry& entry) {
  const Session& session = *entry.session;
  spdlog::debug("tenant {}: session of process {} ends", session.tenant().name, session.peer().pid);
  // softhca-run only looks who answers: such connections would push other events out.
  if (session.greeted()) note(session, "session_closed", "left");
  --entry.listener->connections;
  if (!entry.charged) entry.listener->telling = false;
  sessions_.erase(entry.self);
}

}  // namespace softhca::control
