// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/port_watch.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/engine/requests/configuration_requests.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::control {

using engine::PortService;

namespace {

/// A look costs a few system calls for each port with a backup. Queue pairs repeat what was lost
/// meanwhile.
constexpr Duration kLookInterval = std::chrono::milliseconds(50);

bool has_backup(const configuration::PortConfig& port) { return port.interfaces().size() > 1; }

}  // namespace

void PortWatch::add_to(AdminMethods& methods) {
  methods.add("port.set", [this](const Json& params, const PeerIdentity& caller) {
    return set(params, caller);
  });
}

RpcResult PortWatch::set(const Json& params, const PeerIdentity& caller) {
  const auto name = params.at("name").get<std::string>();
  const bool up = params.at("up").get<bool>();
  const auto id = adapter_.find_port(name);
  if (!id) return no_such("port", name);
  const engine::PortBinding& port = *adapter_.engine.ports[id->value];
  const PortService wanted = up ? PortService::kOn : PortService::kSetDown;
  if (port.service == wanted) return Json{{"name", name}, {"state", port.state()}};
  records::Record record;
  if (!up && adapter_.records != nullptr) {
    if (const Outcome reserved = adapter_.records->reserve(); !reserved)
      return RpcError{RpcCode::kRefused, "it cannot be recorded: " + reserved.error().message, {}};
    records::BodyWriter body;
    body.add_text(name);
    record = adapter_.records->write(records::Kind::kPortDown, body.bytes());
  }
  adapter_.worker.run(engine::ServePort{*id, wanted});
  if (up)
    down_.erase(name);
  else
    down_[name] = std::move(record);
  adapter_.journal.add({.kind = up ? "port_up" : "port_down",
                        .text = "port " + name + (up ? " is in service" : " is set down") + "; " +
                                requested_by(caller)});
  changed_();
  return Json{{"name", name}, {"state", port.state()}};
}

void PortWatch::restore(std::span<records::Adopted> left) {
  for (records::Adopted& each : left) {
    if (each.kind != records::Kind::kPortDown) continue;
    std::string name;
    const bool whole = records::BodyReader(each.body).read_text(name);
    const auto id = whole ? adapter_.find_port(name) : std::nullopt;
    if (!id) {  // the configuration has it no more
      each.record.erase();
      continue;
    }
    if (adapter_.engine.ports[id->value]->service == PortService::kOn)
      adapter_.worker.run(engine::ServePort{*id, PortService::kSetDown});
    down_[name] = std::move(each.record);
  }
}

Time PortWatch::next_look() const {
  return std::ranges::any_of(adapter_.config.ports, has_backup) ? looked_ + kLookInterval : kNever;
}

void PortWatch::look(Time now) {
  looked_ = now;
  for (std::size_t i = 0; i < adapter_.config.ports.size(); ++i) {
    const configuration::PortConfig& config = adapter_.config.ports[i];
    const port::Port& port = *adapter_.engine.ports[i]->port;
    if (!has_backup(config) || !port.should_fail_over()) continue;
    adapter_.worker.run(engine::FailOver{adapter_.engine.ports[i]->id});
    const std::vector<std::string> interfaces = config.interfaces();
    const unsigned to = port.link_in_use();
    adapter_.journal.add({.kind = "port_failover",
                          .text = "port " + config.name + ": " + interfaces[1 - to] +
                                  " has no carrier; " + interfaces[to] + " is in use"});
  }
}

void PortWatch::tick() {
  const auto& ports = adapter_.engine.ports;
  told_.resize(ports.size());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const port::PortCounters now = ports[i]->port->counters();
    const std::string& name = ports[i]->name;
    Told& told = told_[i];
    if (now.trains_refused != 0 && !std::exchange(told.trains, true))
      spdlog::warn(
          "port {}: the interface or the kernel does not support trains of packets (Linux 6.2 and "
          "later do); the port sends packets one by one",
          name);
    if (ports[i]->port->kernel_headers() == nullptr) continue;
    if (now.path_too_narrow != 0 && !std::exchange(told.narrow, true))
      spdlog::warn(
          "port {}: packets are lost because a link on their path has a smaller MTU; set the "
          "port's mtu to that of the link",
          name);
    if (now.rx_missed != 0 && !std::exchange(told.missed, true))
      spdlog::warn(
          "port {}: packets are lost because the receive buffer of its socket is full; raise the "
          "sysctl net.core.rmem_max, which limits it for unprivileged users",
          name);
  }
}

}  // namespace softhca::control
