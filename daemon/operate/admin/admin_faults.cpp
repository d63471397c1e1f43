// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_faults.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/requests/diagnostic_requests.hpp"
#include "daemon/engine/requests/showing.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/admin/diagnoses.hpp"
#include "daemon/operate/admin/fault_request.hpp"

namespace softhca::control {
namespace {

using engine::Faults;
using engine::FaultTerms;

RpcError to_rpc(const Error& error) {
  return {
      error.code == ENOENT ? RpcCode::kNoSuchThing : RpcCode::kInvalidParams, error.message, {}};
}

std::string sum_of(const engine::Fault& fault) {
  return "; it affected " + std::to_string(fault.injected().value()) + " of " +
         std::to_string(fault.met().value());
}

}  // namespace

AdminFaults::~AdminFaults() {
  for (const Entry& entry : entries_) adapter_.worker.run(engine::RemoveFault{entry.fault});
}

void AdminFaults::add_to(AdminMethods& methods) {
  methods.add("fault.add", [this](const Json& params, const PeerIdentity& caller) {
    return add(params, caller);
  });
  methods.add("fault.remove", [this](const Json& params, const PeerIdentity& caller) {
    return remove(params, caller);
  });
  methods.add("faults", [this](const Json&) {
    const Faults& faults = adapter_.engine.faults;
    Json injected = Json::object();
    for (std::size_t i = 0; i < engine::kFaultKinds; ++i) {
      const auto kind = static_cast<engine::FaultKind>(i);
      injected[name_of(kind)] = faults.injected(kind).value();
    }
    return RpcResult(Json{{"faults", list()},
                          {"injected", std::move(injected)},
                          {"held", faults.held().value()},
                          {"no_room", faults.no_room().value()}});
  });
}

/// Finds the target of a fault. Resolves names once: a later tenant of the same name is another
/// tenant.
Outcome AdminFaults::find_target(const Json& params, FaultTerms& terms) const {
  const auto tenant = param<std::string>(params, "tenant", "");
  const auto port = param<std::string>(params, "port", "");
  if (tenant.empty() && port.empty() && !terms.qpn)
    return Error{"a fault needs a target: tenant, port or qpn, or more than one of them", EINVAL};
  for (const auto& known : adapter_.tenants)
    if (known->name == tenant) terms.tenant = known->id;
  if (!tenant.empty() && !terms.tenant) return Error{"no such tenant: " + tenant, ENOENT};
  terms.port = adapter_.find_port(port);
  if (!port.empty() && !terms.port) return Error{"no such port: " + port, ENOENT};
  if (needs_port(terms.kind) && adapter_.engine.ports.empty())
    return Error{std::string(name_of(terms.kind)) +
                     " affects packets at a port, and this daemon has no port; inside a daemon use "
                     "drop or rnr",
                 ENOENT};
  return find_queue_pair(terms);
}

Outcome AdminFaults::find_queue_pair(const FaultTerms& terms) const {
  if (!terms.qpn) return {};
  const auto found = adapter_.worker.run(engine::FindQp{*terms.qpn});
  const bool there = found && (!terms.tenant || found->tenant->id == *terms.tenant);
  const std::string name = "queue pair " + std::to_string(terms.qpn->value);
  if (!there) return Error{"not found: " + name + (terms.tenant ? " of that tenant" : ""), ENOENT};
  if (found->is_local && (needs_port(terms.kind) || terms.port))
    return Error{"the peer of " + name + " is in the same daemon; use drop or rnr, without a port",
                 EINVAL};
  return {};
}

std::unique_ptr<Faults::Room> AdminFaults::make_room() const {
  std::size_t longest = 0;
  for (const auto& binding : adapter_.engine.ports)
    longest = std::max<std::size_t>(longest, binding->port->mtu() + port::kEthernetOverhead);
  return std::make_unique<Faults::Room>(longest);
}

RpcResult AdminFaults::add(const Json& params, const PeerIdentity& caller) {
  tick();
  auto terms = fault_terms(params, now());
  if (!terms) return to_rpc(terms.error());
  if (const Outcome found = find_target(params, *terms); !found) return to_rpc(found.error());
  if (entries_.size() >= Faults::kMost)
    return RpcError{RpcCode::kRefused,
                    std::to_string(Faults::kMost) +
                        " faults are in force, the most possible; `faults` lists them",
                    Json{{"resource", "faults"}, {"asked", 1}, {"free", 0}}};
  std::unique_ptr<Faults::Room> room;
  if (needs_room(terms->kind) && !has_room_) {
    room = make_room();
    has_room_ = true;
  }
  Entry& entry = entries_.emplace_back(Entry{.fault = engine::Fault(++last_number_, *terms),
                                             .who = caller,
                                             .tenant = param<std::string>(params, "tenant", ""),
                                             .port = param<std::string>(params, "port", "")});
  adapter_.worker.run(engine::AddFault{entry.fault, std::move(room)});
  entry.record = record_diagnosis(adapter_, "fault_expired", title_of(entry));
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(entry.fault.terms().until - now()).count();
  note(entry, caller, "fault_added",
       "is injected into " + chance_text(entry.fault.terms()) + ", for " + std::to_string(seconds) +
           " s; " + requested_by(caller));
  return list().back();
}

RpcResult AdminFaults::remove(const Json& params, const PeerIdentity& caller) {
  tick();
  const bool all = param(params, "all", false);
  const auto numbers = param(params, "numbers", std::vector<std::uint64_t>());
  if (all != numbers.empty())
    return invalid_params("give either the numbers of the faults to remove, or all");
  const auto is_meant = [&](const Entry& entry) {
    return all || std::ranges::find(numbers, entry.fault.number()) != numbers.end();
  };
  for (const std::uint64_t number : numbers)
    if (std::ranges::none_of(entries_,
                             [&](const Entry& entry) { return entry.fault.number() == number; }))
      return no_such("fault", std::to_string(number));
  Json removed = Json::array();
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto place = at++;
    if (!is_meant(*place)) continue;
    removed.push_back(place->fault.number());
    note(*place, caller, "fault_removed",
         "is removed; " + requested_by(caller) + sum_of(place->fault));
    end(place);
  }
  return Json{{"removed", std::move(removed)}};
}

void AdminFaults::tick() {
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto place = at++;
    if (!place->fault.is_over(now())) continue;
    note(
        *place, {}, "fault_expired",
        (place->fault.is_lost() ? "has ended: its tenant is gone" : "has ended: its time is over") +
            sum_of(place->fault));
    end(place);
  }
  if (!has_room_ || !entries_.empty()) return;
  has_room_ = adapter_.worker.run(engine::TakeFaultRoom{}) == nullptr;
}

void AdminFaults::end(Place place) {
  adapter_.worker.run(engine::RemoveFault{place->fault});
  entries_.erase(place);
}

/// Returns "fault 1 (drop; tenant ocean)".
std::string AdminFaults::title_of(const Entry& entry) {
  const FaultTerms& terms = entry.fault.terms();
  std::string target;
  const auto add = [&](const std::string& what) { target += (target.empty() ? "" : ", ") + what; };
  if (!entry.tenant.empty()) add("tenant " + entry.tenant);
  if (!entry.port.empty()) add("port " + entry.port);
  if (terms.qpn) add("queue pair " + std::to_string(terms.qpn->value));
  if (terms.direction == engine::FaultDirection::kSent) add("sent");
  if (terms.direction == engine::FaultDirection::kReceived) add("received");
  return "fault " + std::to_string(entry.fault.number()) + " (" + name_of(terms.kind) + "; " +
         target + ")";
}

/// Adds an entry to the journal. The entry belongs to no tenant, so that events of a tenant's
/// programs cannot displace it.
void AdminFaults::note(const Entry& entry, const PeerIdentity& who, const char* kind,
                       const std::string& text) {
  adapter_.journal.add({.kind = kind,
                        .text = title_of(entry) + " " + text,
                        .process = static_cast<std::uint32_t>(who.pid)});
}

Json AdminFaults::list() {
  tick();
  Json faults = Json::array();
  for (const Entry& entry : entries_) {
    Json one = to_json(entry.fault, now());
    if (!entry.tenant.empty()) one["tenant"] = entry.tenant;
    if (!entry.port.empty()) one["port"] = entry.port;
    one["pid"] = entry.who.pid;
    one["uid"] = entry.who.uid;
    faults.push_back(std::move(one));
  }
  return faults;
}

}  // namespace softhca::control
