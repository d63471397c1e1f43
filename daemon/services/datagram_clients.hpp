// SPDX-License-Identifier: Apache-2.0

// Programs of tenants that are clients of shared queue pairs (mechanism E): of general services, by
// management class, and of the queue pair for programs (E6). This part decides which programs may
// be clients, and how many buffers and requests the programs of a tenant may have. DatagramClient
// is one of these clients. Runs on the control thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/token_bucket.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/services/general_services.hpp"

namespace softhca::control {

class DatagramClients {
 private:
  struct Queue;

 public:
  DatagramClients(Adapter& adapter, GeneralServices& general_services,
                  GeneralServices& shared_datagrams)
      : adapter_(adapter),
        general_services_{general_services, &configuration::Config::general_services},
        shared_datagrams_{shared_datagrams, &configuration::Config::shared_datagrams} {}

  /// A place among the clients, held as long as it exists.
  class Registration {
   public:
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    GeneralServices& service() const { return queue_.service; }
    Adapter& adapter() const { return clients_.adapter_; }
    bool is_of_class() const;
    /// Returns the management class, or the number.
    std::uint32_t selector() const { return selector_; }
    /// `buffers`: the number that the program now requests; 0: the operator's number. Returns 0 or
    /// an errno value.
    int set_buffers(std::uint32_t buffers);
    std::uint32_t asked() const;
    /// Charges a request; call it before the program sends. Returns 0, or EBUSY if the programs of
    /// the tenant send too often.
    int charge() { return clients_.charge(queue_, tenant_); }

   private:
    friend class DatagramClients;
    Registration(DatagramClients& clients, Queue& queue, const engine::Tenant& tenant,
                 std::uint32_t selector, std::uint32_t buffers)
        : clients_(clients),
          queue_(queue),
          tenant_(tenant),
          selector_(selector),
          buffers_(buffers) {}

    DatagramClients& clients_;
    Queue& queue_;
    const engine::Tenant& tenant_;
    std::uint32_t selector_;
    std::uint32_t buffers_;
    bool entered_ = false;
  };

  /// Registers a client. Returns 0 or an errno value, as abi::OpenDatagramClientRequest says.
  /// Reports to the operator why a program is refused. `client` is called as long as the
  /// registration lasts. `again`: an earlier adapter has registered it; no request is charged.
  int add(const engine::Tenant& tenant, pid_t process,
          const abi::OpenDatagramClientRequest& request, GeneralServices::Client client,
          std::unique_ptr<Registration>& out, bool again = false);

 private:
  struct Usage {
    TokenBucket requests;
    ComplaintLimit complaints;
  };
  struct Queue {
    GeneralServices& service;
    configuration::GeneralServicesConfig configuration::Config::*settings;
    std::vector<Registration*> clients{};
    std::map<TenantId, Usage> usage{};
  };
  /// 0 or an errno value, and the reason.
  struct Answer {
    int error = 0;
    std::string why{};
  };

  const configuration::GeneralServicesConfig& settings(const Queue& queue) const {
    return adapter_.config.*queue.settings;
  }
  Answer enter(Registration& registration, GeneralServices::Client client);
  Answer check_number(const Queue& queue, const engine::Tenant& tenant) const;
  /// `but`: the registration that is to have `buffers`.
  Answer check_room(const Registration& but, std::uint32_t buffers) const;
  int charge(Queue& queue, const engine::Tenant& tenant);
  void complain(const Registration& registration, pid_t process, const std::string& client,
                const std::string& why);

  Adapter& adapter_;
  Queue general_services_;
  Queue shared_datagrams_;
};

}  // namespace softhca::control
