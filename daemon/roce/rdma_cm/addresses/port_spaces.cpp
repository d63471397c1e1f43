// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"

#include <cerrno>

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

int PortSpaces::bind(Identifier& id, bool may_bind_low_ports) {
  const PortTable::Claim claim = claim_of(id);
  PortTable& ports = of(id.space);
  if (id.local.port == 0) {
    id.local.port = ports.bind_any(id.number.value, claim, environment_.random());
    if (id.local.port == 0) return EADDRNOTAVAIL;
  } else {
    if (id.local.port < kFirstUnprivilegedPort && !may_bind_low_ports) return EACCES;
    if (const int error = ports.bind(id.number.value, claim)) return error;
  }
  id.holds_port = true;
  return 0;
}

int PortSpaces::listen(const Identifier& id) {
  return of(id.space).listen(id.number.value, id.local.port);
}

void PortSpaces::claim_changed(const Identifier& id) {
  if (id.holds_port) of(id.space).change(id.number.value, claim_of(id));
}

void PortSpaces::release(Identifier& id) {
  if (id.holds_port) of(id.space).release(id.number.value, id.local.port);
  id.holds_port = false;
}

}  // namespace softhca::management::rdma_cm
