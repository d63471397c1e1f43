// SPDX-License-Identifier: Apache-2.0

// The general services agent (mechanism E): queue pair 1 of every port and address, and the clients
// that have registered for its datagrams. Or another queue pair that several clients share (E6),
// served in the same way. To the engine it is a tenant, with PCBs and TVLs of its own (mechanism
// A9). Its share of the engine is not larger than a tenant's. Runs on the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/general_services_config.hpp"
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/requests/shared_qp_requests.hpp"
#include "daemon/engine/worker.hpp"

namespace softhca::control {

class GeneralServices {
 public:
  /// Called with a received datagram, which is valid during the call only.
  using Receive = std::function<void(const engine::Datagram&)>;
  /// Called with a received datagram. It stays in a buffer of the client's share until release().
  using Keep = std::function<void(std::uint32_t buffer)>;
  /// Called when the client's share was changed because of its traffic (E4). Empty: the client
  /// ignores it.
  using Tell = std::function<void(const management::gsa::ShareChange&)>;
  struct Client {
    std::string name;
    std::optional<std::uint32_t> buffers;  ///< nothing: the operator's number
    Receive receive;
    Tell tell;
    Keep keep;  ///< instead of `receive`: for a client that keeps buffers for any time
  };

  struct Place {
    TenantId tenant;  ///< its tenant number in the engine; no other tenant has it
    const engine::SharedQueuePair& queue_pair;
    const char* name;
    std::uint32_t clients;  ///< limit of clients
  };
  /// Takes PCBs, TVLs and the queue pair. Errors: out of memory, descriptors or table entries.
  static Expected<std::unique_ptr<GeneralServices>> open(
      engine::Worker& worker, const Place& place,
      const configuration::GeneralServicesConfig& config = {});
  ~GeneralServices();
  GeneralServices(const GeneralServices&) = delete;
  GeneralServices& operator=(const GeneralServices&) = delete;

  /// Adds a client for a tenant's addresses. `selector`: for a management class, the value of
  /// class_selector(). Errors: as gsa::ReceivePool::register_client().
  Outcome add_client(const engine::Tenant& tenant, std::uint32_t selector, Client client);
  /// As gsa::ReceivePool::set_buffers().
  Outcome set_buffers(const engine::Tenant& tenant, std::uint32_t selector,
                      std::optional<std::uint32_t> buffers);
  /// As gsa::ReceivePool::vouch_for().
  void vouch_for(const engine::Tenant& tenant, std::uint32_t selector, const Gid& source);
  /// Removes a client, if it exists.
  void remove_client(const engine::Tenant& tenant, std::uint32_t selector);

  /// Returns a descriptor that is readable when datagrams have been received.
  int event_fd() const { return service_->event_fd(); }
  /// Gives received datagrams to their clients, a bounded number of them. Returns true if there are
  /// more.
  bool serve();
  /// Sends a datagram, which may be lost, as on a wire. Returns false if too many wait to be sent.
  bool send(const engine::Datagram& datagram);
  /// Returns a datagram that a client keeps. REQUIRES: it was given to the client, and not
  /// released.
  const engine::Datagram& datagram(std::uint32_t buffer) const {
    return service_->datagram(buffer);
  }
  void release(std::uint32_t buffer) { service_->release(buffer); }

  /// Adjusts the shares to the traffic of the clients (E4). Call it about once a second. `told` is
  /// called for every changed share, besides the client itself.
  using Told = std::function<void(const std::string& client, const management::gsa::ShareChange&)>;
  void tick(Time now, const Told& told);
  /// Checks if change() is possible once the clients of the tenants in `gone` are gone.
  Outcome check(const configuration::GeneralServicesConfig& config,
                const std::vector<TenantId>& gone) const;
  /// Applies a configuration at once. After an error nothing has changed. Errors: as
  /// gsa::ReceivePool::set_parameters().
  Outcome change(const configuration::GeneralServicesConfig& config, Time now);

  /// Return counters that any thread may read.
  const engine::SharedQpCounters& counters() const { return service_->counters(); }
  const engine::Tenant& tenant() const { return tenant_; }
  const management::gsa::PoolCounters& pool_counters() const { return service_->pool().counters(); }
  /// Returns the clients as of the last tick(). For each tenant with clients that are gone, also
  /// returns the sums of their counters, under selector 0. Call it on any thread.
  std::vector<management::gsa::ClientView> clients() const;
  /// Returns the current state, for the operator.
  engine::PoolView view();

 private:
  struct Registration {
    management::gsa::ClientId id;
    Client client;
  };

  GeneralServices(engine::Worker& worker, const Place& place);
  Outcome enter(const Place& place, const configuration::GeneralServicesConfig& config);
  bool deliver(const engine::Datagram& datagram);

  engine::Worker& worker_;
  engine::Tenant tenant_;
  std::unique_ptr<engine::SharedQp> service_;
  std::map<management::gsa::ClientKey, Registration> clients_;
  std::map<TenantId, management::gsa::ClientCounters> former_;  ///< sums over clients that are gone
  mutable std::mutex seen_changing_;
  std::vector<management::gsa::ClientView> seen_;  ///< guarded by seen_changing_
};

}  // namespace softhca::control
