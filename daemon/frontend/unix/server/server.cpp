// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/server.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/operate/admin/diagnoses.hpp"

namespace softhca::control {
namespace {

// Interval at which the links of the ports and the kernel's adapters are polled.
constexpr auto kTick = std::chrono::seconds(1);
// Interval at which the ending daemon checks whether programs have cleaned up.
constexpr auto kLeaveStep = std::chrono::milliseconds(50);

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
          adapter, [this] { return sessions_.all(); },
          [this](const engine::Tenant& tenant) { return connections_view_.limits(tenant); }),
      connections_view_(adapter, connections_, general_services, shared_datagrams),
      listeners_(adapter, tenant_loops_,
                 [this](Listener& listener, PeerSocket socket, const PeerIdentity& peer) {
                   sessions_.add(listener, std::move(socket), peer);
                 }),
      channels_(adapter, tenant_loops_, connections_, datagram_clients_),
      sessions_(
          adapter, tenant_loops_,
          [this](engine::Tenant& tenant, std::unique_ptr<SocketPeer> peer, ChannelRequest request) {
            channels_.add(tenant, std::move(peer), std::move(request));
          },
          [this](Listener& listener, const std::string& why) {
            listeners_.complain(listener, why);
          }),
      control_sockets_(adapter, tenant_loops_),
      device_trees_(adapter,
                    [this](const engine::Tenant& tenant, std::uint8_t device, std::uint8_t port,
                           bool up) { sessions_.report_link(tenant, device, port, up); }),
      port_watch_(adapter, [this] { device_trees_.check_links(); }) {
  view_.add_to(methods_);
  connections_view_.add_to(methods_);
  captures_.add_to(methods_);
  faults_.add_to(methods_);
  port_watch_.add_to(methods_);
  view_.show("faults", [this] { return faults_.list(); });
  control_sockets_.on_open([this](AdminMethods& methods, const engine::Tenant& tenant) {
    view_.add_own(methods, tenant);
  });
  watches_.signals.ready = [this] { take_signal(); };
  watches_.admin.ready = [this] { admin_.serve(); };
  watches_.captures.ready = [this] { captures_.serve(); };
  watches_.datagrams.ready = [this] { serve_datagrams(); };
  watches_.blocking_calls.ready = [this] { adapter_.blocking_calls.finish(); };
}

Outcome Server::open() {
  if (auto opened = loop_.open(); !opened) return opened;
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return system_error("control thread");
  if (auto watched = loop_.watch(signals_.get(), watches_.signals); !watched) return watched;
  const int calls = adapter_.blocking_calls.fd();
  if (auto watched = loop_.watch(calls, watches_.blocking_calls); !watched) return watched;
  for (const GeneralServices* services : {&general_services_, &shared_datagrams_})
    if (auto watched = loop_.watch(services->event_fd(), watches_.datagrams); !watched)
      return watched;
  if (auto prepared = prepare_folder(); !prepared) return prepared;
  // The admin socket comes first: once a tenant's socket exists, it does too.
  if (auto opened = open_admin(); !opened) return opened;
  if (auto opened = open_tenants(); !opened) return opened;
  device_trees_.write_cdi_file();
  device_trees_.look_at_real_devices();
  connections_.tick();
  return {};
}

Outcome Server::restore(std::span<records::Adopted> left) {
  const auto find_listener = [this](const std::string& tenant, const std::string& level) {
    return listeners_.find(tenant, level);
  };
  for (records::Adopted& each : left)
    if (each.kind == records::Kind::kConnection) sessions_.restore(each, find_listener);
  if (auto restored = sessions_.restore_objects(left); !restored) return restored;
  connections_.restore(left);
  for (records::Adopted& each : left)
    if (each.kind == records::Kind::kEventChannel || each.kind == records::Kind::kDatagramClient)
      if (auto restored = channels_.restore(each); !restored) return restored;
  connections_.end_restoring();
  if (auto started = sessions_.start(); !started) return started;
  report_ended_diagnoses(adapter_, left);
  port_watch_.restore(left);
  remove_earlier(adapter_.kept);
  // The folders of tenants that the configuration does not have any more.
  return prepare_folder();
}

Server::~Server() {
  for (const auto& tenant : adapter_.tenants) close_tenant(*tenant);
  device_trees_.remove();
}

Outcome Server::open_admin() {
  const configuration::SocketConfig& socket = adapter_.config.admin.socket;
  const std::string path = adapter_.config.daemon.runtime_dir + "/admin.sock";
  if (auto opened = admin_.open(adapter_.kept, path, {socket.owner, socket.group, socket.mode});
      !opened)
    return opened;
  if (auto opened = captures_.open(); !opened) return opened;
  if (auto watched = loop_.watch(captures_.fd(), watches_.captures); !watched) return watched;
  return loop_.watch(admin_.fd(), watches_.admin);
}

Outcome Server::follow(Pulse& pulse, int orders, std::function<void()> ready) {
  pulse.begin();
  loop_.show_turns(pulse);
  watches_.orders.ready = std::move(ready);
  return loop_.watch(orders, watches_.orders);
}

Expected<Server::End> Server::run() {
  Time next_tick = now() + kTick;
  while (end_ == End::kNone) {
    if (auto done = step(next_tick); !done) return done.error();
    if (now() < next_tick) continue;  // a tick comes in time, however busy tenants keep the loop
    tick();
    next_tick = now() + kTick;
  }
  if (end_ == End::kRetire) return end_;
  if (auto done = leave(); !done) return done.error();
  channels_.clear();
  sessions_.clear();
  control_sockets_.clear();
  device_trees_.remove();
  return End::kOrderly;
}

Outcome Server::step(Time due) {
  due = std::min({due, connections_.next_deadline(), port_watch_.next_look()});
  if (auto done = loop_.step(datagrams_left_ ? 0 : milliseconds_until(due)); !done) return done;
  if (datagrams_left_) serve_datagrams();
  if (now() >= connections_.next_deadline()) connections_.expire(now());
  if (now() >= port_watch_.next_look()) port_watch_.look(now());
  return {};
}

/// Takes no more connections. Notifies programs that use rdma_cm that the device is removed. They
/// may clean up, also by verbs. A second signal ends the wait at once.
Outcome Server::leave() {
  for (const auto& tenant : adapter_.tenants) close_tenant(*tenant);
  loop_.unwatch(admin_.fd());
  reload_ = nullptr;
  for (end_ = End::kNone; !connections_.retire() && end_ == End::kNone;)
    if (auto done = step(now() + kLeaveStep); !done) return done;
  return {};
}

void Server::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo == SIGHUP) {
    if (reload_) reload_();
    return;
  }
  spdlog::info("{}: stopping", strsignal(static_cast<int>(info.ssi_signo)));
  end_ = End::kOrderly;
}

void Server::tick() {
  adapter_.blocking_calls.tick();
  admin_.tick();
  control_sockets_.tick();
  device_trees_.tick();
  port_watch_.tick();
  faults_.tick();
  tick_datagrams(general_services_);
  tick_datagrams(shared_datagrams_);
  connections_.tick();
  view_.tick();
  if (ticked_) ticked_();
  listeners_.tick();
  sessions_.adjust_vcbs();
  sessions_.tell_late_memory();
}

void Server::serve_datagrams() {
  const bool management = general_services_.serve();
  const bool shared = shared_datagrams_.serve();
  datagrams_left_ = management || shared;
}

void Server::tick_datagrams(GeneralServices& services) {
  services.tick(now(), [&](const std::string& client, const management::gsa::ShareChange& change) {
    const auto tenant =
        std::find_if(adapter_.tenants.begin(), adapter_.tenants.end(),
                     [&](const auto& t) { return t->id == engine::tenant_of(change.key); });
    adapter_.journal.add(
        {.kind = change.new_share > change.old_share ? "gsa_share_raised" : "gsa_share_lowered",
         .tenant = tenant == adapter_.tenants.end() ? "" : (*tenant)->name,
         .text = client + " has " + std::to_string(change.new_share) + " receive buffers of " +
                 services.tenant().name + ", instead of " + std::to_string(change.old_share)});
  });
}

}  // namespace softhca::control
