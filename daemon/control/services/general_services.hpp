// The general services agent (mechanism E): queue pair 1 of every port and address, and the clients
// that have registered for what it receives; or, in the same way, another queue pair that several
// clients share (E6). It is a tenant of the engine like any other, with PCBs and a TVL of its own
// (mechanism A9), and no bigger share of the engine than a tenant has. On the control thread.
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
#include "daemon/engine/datagram_service.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/resource/general_services_config.hpp"

namespace softhca::control {

class GeneralServices {
 public:
  /// A datagram has come. It is there during the call only.
  using Receive = std::function<void(const engine::Datagram&)>;
  /// A datagram has come. It stays, in a buffer of the client's share, until release().
  using Keep = std::function<void(std::uint32_t buffer)>;
  /// The share of the client has been changed, as its traffic showed that it should be (E4). Empty:
  /// the client does not care.
  using Tell = std::function<void(const management::gsa::ShareChange&)>;
  struct Client {
    std::string name;
    std::optional<std::uint32_t> buffers;  ///< none: the operator's number
    Receive receive;
    Tell tell;
    Keep keep;  ///< instead of `receive`: a client that keeps buffers as long as it likes
  };

  struct Place {
    TenantId tenant;  ///< number of the tenant that it is to the engine; no other has it
    const engine::SharedQueuePair& queue_pair;
    const char* name;
    std::uint32_t clients;  ///< registered at once
  };
  /// Takes PCBs, a TVL and the queue pair. Errors: out of memory, descriptors or places.
  static Expected<std::unique_ptr<GeneralServices>> open(
      engine::Worker& worker, const Place& place,
      const resource::GeneralServicesConfig& config = {});
  ~GeneralServices();
  GeneralServices(const GeneralServices&) = delete;
  GeneralServices& operator=(const GeneralServices&) = delete;

  /// Adds a client for a tenant's addresses. `selector`: for a management class as class_selector()
  /// says. Errors: as gsa::ReceivePool::register_client().
  Outcome add_client(const engine::Tenant& tenant, std::uint32_t selector, Client client);
  /// As gsa::ReceivePool::set_buffers().
  Outcome set_buffers(const engine::Tenant& tenant, std::uint32_t selector,
                      std::optional<std::uint32_t> buffers);
  /// As gsa::ReceivePool::vouch_for().
  void vouch_for(const engine::Tenant& tenant, std::uint32_t selector, const Gid& source);
  /// Nothing happens if there is no such client.
  void remove_client(const engine::Tenant& tenant, std::uint32_t selector);

  /// Readable when datagrams have come.
  int event_fd() const { return service_->event_fd(); }
  /// Gives datagrams that have come to their clients, not too many. True: there are more.
  bool serve();
  /// Sends a datagram, which may be lost, as on a wire. False: too many wait to be sent.
  bool send(const engine::Datagram& datagram);
  /// A datagram that a client keeps. REQUIRES: it was given to the client, and not released.
  const engine::Datagram& datagram(std::uint32_t buffer) const {
    return service_->datagram(buffer);
  }
  void release(std::uint32_t buffer) { service_->release(buffer); }

  /// About once a second: looks at the traffic of the clients (E4). `told` is called for every
  /// share that was changed, besides the client itself.
  using Told = std::function<void(const std::string& client, const management::gsa::ShareChange&)>;
  void tick(Time now, const Told& told);
  /// Whether change() can be made once the clients of the tenants in `gone` are gone.
  Outcome check(const resource::GeneralServicesConfig& config,
                const std::vector<TenantId>& gone) const;
  /// Takes effect at once. Errors: as gsa::ReceivePool::set_parameters(); nothing has changed.
  Outcome change(const resource::GeneralServicesConfig& config, Time now);

  /// Counters that any thread may read.
  const engine::DatagramServiceCounters& counters() const { return service_->counters(); }
  const engine::Tenant& tenant() const { return tenant_; }
  const management::gsa::PoolCounters& pool_counters() const { return service_->pool().counters(); }
  /// The clients as they were at the last tick(), and for each tenant that had others, what these
  /// counted together, as of a client of selector 0. From any thread.
  std::vector<management::gsa::ClientView> clients() const;
  /// What the operator asks to see, as it is now.
  struct View {
    management::gsa::Parameters parameters;
    std::uint32_t low_threshold = 0, high_threshold = 0;
    std::vector<management::gsa::ClientView> clients;
    std::vector<management::gsa::SourceView> sources;
  };
  View view();

 private:
  struct Registration {
    management::gsa::ClientId id;
    Client client;
  };

  GeneralServices(engine::Worker& worker, const Place& place);
  Outcome enter(engine::Engine& engine, const Place& place,
                const resource::GeneralServicesConfig& config);
  bool deliver(const engine::Datagram& datagram);

  engine::Worker& worker_;
  engine::Tenant tenant_;
  std::unique_ptr<engine::DatagramService> service_;
  std::map<management::gsa::ClientKey, Registration> clients_;
  std::map<TenantId, management::gsa::ClientCounters> former_;  ///< of clients that are gone
  mutable std::mutex seen_changing_;
  std::vector<management::gsa::ClientView> seen_;  ///< under seen_changing_
};

}  // namespace softhca::control
