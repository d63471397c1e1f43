// Connections by rdma_cm (mechanism E): for each tenant a service that takes the place of the
// kernel's connection manager, with port tables of its own, over the general services agent. On the
// control thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/services/general_services.hpp"
#include "daemon/control/sockets/turn.hpp"
#include "daemon/management/rdma_cm/service.hpp"

namespace softhca::control {

class Connections {
 public:
  Connections(Adapter& adapter, GeneralServices& agent);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Errors: no buffers are left for another client of general services.
  Outcome add(engine::Tenant& tenant);
  /// Nothing happens if the tenant is not served. REQUIRES: its channels are closed.
  void remove(const engine::Tenant& tenant);
  /// Sets the tenant's limits, and what its guarantees carry. Nothing happens if it is not served.
  void configure(const engine::Tenant& tenant, const resource::TenantConfig& config);
  /// Nothing: it is not served.
  std::optional<management::ConnectionFigures> figures(const engine::Tenant& tenant);
  /// The tenant's addresses have changed.
  void addresses_changed(const engine::Tenant& tenant);

  /// The tenant's adapter goes: the first call tells its programs and their peers, as for a device
  /// that is removed. True: the programs have destroyed what they had, their two seconds for it are
  /// over, or the tenant is not served.
  bool retire(const engine::Tenant& tenant);
  /// As retire() above, for all tenants, as the daemon ends.
  bool retire();
  /// retire() was called for it.
  bool is_retired(const engine::Tenant& tenant);

  /// `signal`: a stream socket that gets a byte whenever events are queued and none were before.
  /// Nothing: the tenant is not served.
  std::optional<management::rdma_cm::ChannelId> open_channel(
      const engine::Tenant& tenant, const management::rdma_cm::ChannelOwner& owner, int signal);
  /// Destroys identifiers of the channel, then closes it. False: the turn is over, and it is to be
  /// called again.
  bool close_channel(const engine::Tenant& tenant, management::rdma_cm::ChannelId channel,
                     const Turn& turn);
  /// Null: the tenant is not served.
  management::rdma_cm::Service* find(const engine::Tenant& tenant);

  /// kNever: nothing is due.
  Time next_deadline() const;
  /// Does a bounded part, of one tenant: next_deadline() is still past when more is due.
  void expire(Time now);
  /// About once a second: figures for the metrics.
  void tick();

 private:
  class ServedTenant;

  ServedTenant* served(const engine::Tenant& tenant);

  Adapter& adapter_;
  GeneralServices& agent_;
  std::vector<std::unique_ptr<ServedTenant>> served_;
  std::size_t next_expiring_ = 0;
};

}  // namespace softhca::control
