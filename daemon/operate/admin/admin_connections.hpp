// SPDX-License-Identifier: Apache-2.0

// The methods of the admin socket about connections: connections, listeners, gsa. See
// docs/admin-socket.md.
#pragma once

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/operate/admin/admin_methods.hpp"
#include "daemon/services/connections.hpp"
#include "daemon/services/general_services.hpp"

namespace softhca::control {

class ConnectionsView {
 public:
  ConnectionsView(const Adapter& adapter, Connections& connections, GeneralServices& agent,
                  GeneralServices& shared)
      : adapter_(adapter), connections_(connections), agent_(agent), shared_(shared) {}

  /// Adds the methods. This object must outlive them.
  void add_to(AdminMethods& methods);
  /// Returns the limits of a tenant's connections, for tenant.show.
  Json limits(const engine::Tenant& tenant);

 private:
  RpcResult connections(const Json& params);
  RpcResult listeners(const Json& params);
  RpcResult general_services(const Json& params);
  Json view_of(GeneralServices& services) const;
  Json view_of(management::gsa::ClientKey key, bool of_class) const;
  /// Calls visit(tenant, service) for the tenant that `params` names, or for all tenants.
  template <class Visit>
  std::optional<RpcError> for_each_service(const Json& params, Visit&& visit);

  const Adapter& adapter_;
  Connections& connections_;
  GeneralServices& agent_;
  GeneralServices& shared_;  ///< the queue pair for programs
};

}  // namespace softhca::control
