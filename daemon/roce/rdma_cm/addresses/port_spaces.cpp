// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"

#include <cerrno>

#include "daemon/base/address_text.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr std::uint16_t kFirstUnprivilegedPort = 1024;

PortTable::Claim claim_of(const Identifier& id) {
  return {.at = id.local, .reuse = id.options.reuse_address, .af_only = id.keeps_to_family()};
}

}  // namespace

PortTable& PortSpaces::of(PortSpace space) {
  switch (space) {
    case PortSpace::kTcp:
      return tcp_;
    case PortSpace::kUdp:
      return udp_;
    case PortSpace::kIpoib:
      break;
  }
  return ipoib_;
}

int PortSpaces::bind(const ChannelCommand& command, Identifier& id) {
  const PortTable::Claim claim = claim_of(id);
  PortTable& ports = of(id.space);
  if (id.local.port == 0) {
    id.local.port = ports.bind_any(id.number.value, claim, environment_.random());
    if (id.local.port == 0)
      return command.refuse(EADDRNOTAVAIL, "port 0, but all ports from %u to %u are in use",
                            ports.range().first, ports.range().last);
  } else {
    if (id.local.port < kFirstUnprivilegedPort && !command.channel.owner.may_bind_low_ports)
      return command.refuse(EACCES, "port %u, at least %u without CAP_NET_BIND_SERVICE",
                            id.local.port, kFirstUnprivilegedPort);
    if (const int error = check(command, id, ports.bind(id.number.value, claim))) return error;
  }
  id.holds_port = true;
  return 0;
}

int PortSpaces::listen(const ChannelCommand& command, const Identifier& id) {
  return check(command, id, of(id.space).listen(id.number.value, id.local.port));
}

/// Returns 0, or the error of the conflict, and then names the process that holds the port.
int PortSpaces::check(const ChannelCommand& command, const Identifier& id,
                      const PortTable::Conflict& conflict) {
  if (conflict.error == 0) return 0;
  const Identifier& holder = *identifiers_.find(conflict.owner);
  return command.refuse(conflict.error, "port %u of %s is in use: process %d %s on %s",
                        id.local.port, address_text(id.local.address).c_str(),
                        channels_.process_of(holder),
                        holder.state == IdentifierState::kListen ? "listens" : "has bound it",
                        address_text(holder.local.address).c_str());
}

bool PortSpaces::restore(const Identifier& id) {
  if (!id.holds_port) return true;
  return id.local.port != 0 && of(id.space).bind(id.number.value, claim_of(id)).error == 0;
}

void PortSpaces::claim_changed(const Identifier& id) {
  if (id.holds_port) of(id.space).change(id.number.value, claim_of(id));
}

void PortSpaces::release(Identifier& id) {
  if (id.holds_port) of(id.space).release(id.number.value, id.local.port);
  id.holds_port = false;
}

}  // namespace softhca::management::rdma_cm
