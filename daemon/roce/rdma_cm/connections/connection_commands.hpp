// SPDX-License-Identifier: Apache-2.0

// CONNECT, ACCEPT, REJECT, DISCONNECT and NOTIFY, and the end of an identifier's connection.
#pragma once

#include "daemon/roce/cm/manager.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/connections/admission_control.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

class ConnectionCommands {
 public:
  /// All outlive it.
  ConnectionCommands(RdmaCmEnvironment& environment, const TenantGids& addresses,
                     IdentifierTable& identifiers, AdmissionControl& admission,
                     cm::Manager& manager)
      : environment_(environment),
        addresses_(addresses),
        identifiers_(identifiers),
        admission_(admission),
        manager_(manager) {}
  ConnectionCommands(const ConnectionCommands&) = delete;
  ConnectionCommands& operator=(const ConnectionCommands&) = delete;

  int connect(const ChannelCommand& command);
  int accept(const ChannelCommand& command);
  int reject(const ChannelCommand& command);
  int disconnect(const ChannelCommand& command);
  int notify(const ChannelCommand& command);

  /// Ends the connection of an identifier that is destroyed. The peer is notified as the state
  /// requires.
  void end(Identifier& id, Time now);

 private:
  // Connected: REQ, REP and RTU; datagrams: SIDR_REQ and SIDR_REP.
  int connect_queue_pair(Identifier& id, const ChannelOwner& owner,
                         const rdma_ucm_conn_param& parameters, Time now);
  /// Sets the queue pair that is reported to the peer, which treats an older connection of it as
  /// stale. Returns EPERM if it belongs to another user.
  int name_queue_pair(Identifier& id, const ChannelOwner& owner, std::uint32_t number);
  int resolve_service_id(Identifier& id, const rdma_ucm_conn_param& parameters, Time now);
  int begin(Identifier& id, const cm::Started& started, Time now);
  int confirm_reply(Identifier& id, Time now);
  int accept_request(Identifier& id, const ChannelOwner& owner,
                     const rdma_ucm_conn_param& parameters, Time now);
  int accept_datagrams(Identifier& id, Body private_data, Time now);
  int refuse_request(Identifier& id, Body private_data, wire::CmRejectReason reason, Time now);
  void established(const Identifier& id, Time now);

  RdmaCmEnvironment& environment_;
  const TenantGids& addresses_;
  IdentifierTable& identifiers_;
  AdmissionControl& admission_;
  cm::Manager& manager_;
};

}  // namespace softhca::management::rdma_cm
