// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/shared_qp_requests.hpp"

#include <cerrno>
#include <utility>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

using management::gsa::ReceivePool;

Outcome OpenSharedQp::run(Engine& engine) const {
  const auto added = engine.pcbs().add_group(group);
  if (!added) return added.error();
  tenant.qos_class = *added;
  engine.add_tenant(tenant);
  for (schedule::TvlTerms terms : tvls) {
    terms.qos_class = tenant.qos_class;
    if (const auto tvl = engine.tvl_assignment().add(terms); !tvl) return tvl.error();
  }
  if (!engine.datagram_services().open(service))
    return Error{tenant.name + ": the queue pair is taken", EBUSY};
  return {};
}

void CloseSharedQp::run(Engine& engine) const { engine.datagram_services().close(service); }

Outcome ConfigureSharedQp::run(Engine&) const {
  Outcome set = service.pool().set_parameters(parameters, now);
  if (set) service.set_engine_share(engine_share);
  return set;
}

Expected<management::gsa::ClientId> RegisterClient::run(Engine&) {
  return service.pool().register_client(key, std::move(name), buffers, gives_back);
}

Outcome SetClientBuffers::run(Engine&) const { return service.pool().set_buffers(client, buffers); }

void VouchForSource::run(Engine&) const { service.pool().vouch_for(client, source, now); }

management::gsa::ClientCounters RemoveClient::run(Engine&) const {
  ReceivePool& pool = service.pool();
  const management::gsa::ClientCounters last = *pool.counters_of(client);
  pool.deregister_client(client);
  return last;
}

WatchedTraffic WatchTraffic::run(Engine&) const {
  ReceivePool& pool = service.pool();
  WatchedTraffic watched{.clients = pool.clients(), .changes = {}};
  if (now >= pool.watch_at()) pool.watch_traffic(now);
  while (const auto change = pool.take_share_change()) watched.changes.push_back(*change);
  return watched;
}

PoolView ViewPool::run(Engine&) const {
  const ReceivePool& pool = service.pool();
  return {.parameters = pool.parameters(),
          .low_threshold = pool.low_threshold(),
          .high_threshold = pool.high_threshold(),
          .clients = pool.clients(),
          .sources = pool.busiest_sources(most_sources)};
}

}  // namespace softhca::engine
