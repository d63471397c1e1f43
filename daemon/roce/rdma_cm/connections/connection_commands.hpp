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
  int connect_queue_pair(const ChannelCommand& command, Identifier& id,
                         const rdma_ucm_conn_param& parameters);
  /// Sets the queue pair that is reported to the peer, which treats an older connection of it as
  /// stale. Returns EPERM if it belongs to another user.
  int name_queue_pair(const ChannelCommand& command, Identifier& id, std::uint32_t number);
  int resolve_service_id(const ChannelCommand& command, Identifier& id,
                         const rdma_ucm_conn_param& parameters);
  int begin(const ChannelCommand& command, Identifier& id, const cm::Started& started);
  /// Returns 0, or EINVAL if the identifier has no connection.
  static int check_connected(const ChannelCommand& command, const Identifier& id);
  /// Returns 0, or EINVAL if the manager refused a call for the identifier's connection.
  int check(const ChannelCommand& command, const Identifier& id, cm::Result result);
  int confirm_reply(const ChannelCommand& command, Identifier& id);
  int accept_request(const ChannelCommand& command, Identifier& id,
                     const rdma_ucm_conn_param& parameters);
  int accept_datagrams(const ChannelCommand& command, Identifier& id, Body private_data);
  cm::Result refuse_request(Identifier& id, Body private_data, wire::CmRejectReason reason,
                            Time now);
  void established(const Identifier& id, Time now);

  RdmaCmEnvironment& environment_;
  const TenantGids& addresses_;
  IdentifierTable& identifiers_;
  AdmissionControl& admission_;
  cm::Manager& manager_;
};

}  // namespace softhca::management::rdma_cm
