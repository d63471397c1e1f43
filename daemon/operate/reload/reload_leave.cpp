// SPDX-License-Identifier: Apache-2.0

// The slow part of a change, besides tenants and levels: addresses that queue pairs still have.
#include "daemon/engine/requests/tenant_requests.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/reload.hpp"

namespace softhca::control {

void Reloader::tick() {
  departures_.end_overdue();
  departures_.finish_tenants();
  departures_.finish_levels();
  forget_addresses();
  if (adapter_.allocations.closing() != 0)
    adapter_.change_rows(engine::CollectClosedTvls{adapter_.allocations});
}

void Reloader::forget_addresses() {
  const auto gone = former_.take_over([this](const FormerAddresses::Entry& former) {
    return server_.sessions().oldest(*former.tenant) >= former.session;
  });
  for (const FormerAddresses::Entry& former : gone) {
    const Gid& gid = former.address.gid;
    const bool held = former_.contains(gid);
    bool configured = false;
    for (const configuration::PortConfig& port : adapter_.config.ports)
      for (const configuration::InterfaceAddress& address : port.addresses)
        configured = configured || address.gid == gid;
    engine::SetAddresses set{
        .to = {former.tenant, former.tenant->addresses, former_.of(*former.tenant)}, .gone = {}};
    if (!held && !configured) set.gone = former.address;
    adapter_.worker.run(set);
    if (!held && !configured) guards_.erase(gid);
  }
}

}  // namespace softhca::control
