// SPDX-License-Identifier: Apache-2.0

// Connections by rdma_cm (mechanism E). For each tenant, a service replaces the kernel's connection
// manager, with port tables of its own, over the general services agent. Runs on the control
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/control_thread/turn.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/roce/rdma_cm/service.hpp"
#include "daemon/services/general_services.hpp"

namespace softhca::control {

class Connections {
 public:
  Connections(Adapter& adapter, GeneralServices& agent);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Serves a tenant. Error: no buffers are left for another client of general services.
  Outcome add(engine::Tenant& tenant);
  /// Stops serving a tenant, if it is served. REQUIRES: its channels are closed.
  void remove(const engine::Tenant& tenant);
  /// Sets the tenant's limits, and how many connections its guarantees carry. Does nothing if the
  /// tenant is not served.
  void configure(const engine::Tenant& tenant, const configuration::TenantConfig& config);
  /// Returns the figures of a tenant. Nothing: it is not served.
  std::optional<management::ConnectionFigures> figures(const engine::Tenant& tenant);
  /// Notifies the service that the tenant's addresses have changed.
  void addresses_changed(const engine::Tenant& tenant);

  /// Removes the tenant's adapter. The first call notifies its programs and their peers, as for a
  /// removed device. Returns true when the programs have destroyed their objects, or their two
  /// seconds for it are over, or if the tenant is not served.
  bool retire(const engine::Tenant& tenant);
  /// Does the same for all tenants, as the daemon ends.
  bool retire();
  /// True if retire() was called for the tenant.
  bool is_retired(const engine::Tenant& tenant);

  /// Opens an event channel. `signal` is called when events are queued and none were before.
  /// Nothing: the tenant is not served.
  std::optional<management::rdma_cm::ChannelId> open_channel(
      const engine::Tenant& tenant, const management::rdma_cm::ChannelOwner& owner,
      std::function<void()> signal);
  /// Takes up a channel of an earlier adapter, with a new signal. Returns false if rdma_cm does not
  /// have it.
  bool restore_channel(const engine::Tenant& tenant, management::rdma_cm::ChannelId channel,
                       std::function<void()> signal);
  /// Destroys the identifiers of the channel, then closes it. Returns false if the turn is over;
  /// call it again then.
  bool close_channel(const engine::Tenant& tenant, management::rdma_cm::ChannelId channel,
                     const Turn& turn);
  /// Takes up the state of rdma_cm of an earlier adapter by its records. A tenant with a record
  /// that does not fit begins without any: restore_channel() returns false for its channels.
  /// REQUIRES: the tenants are served, and nothing but configure() was called.
  void restore(std::span<records::Adopted> left);
  /// Ends the channels that were not restored.
  void end_restoring();

  /// Returns the service of a tenant. Null: it is not served.
  management::rdma_cm::Service* find(const engine::Tenant& tenant);
  /// Returns where events for the operator go.
  Journal& journal() { return adapter_.journal; }

  /// Returns the next deadline. kNever: none.
  Time next_deadline() const;
  /// Does a bounded part of the due work, for one tenant. next_deadline() is still past if more is
  /// due.
  void expire(Time now);
  /// Updates the figures for the metrics. Call it about once a second.
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
