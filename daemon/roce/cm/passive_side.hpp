// SPDX-License-Identifier: Apache-2.0

// The passive side of connection establishment (12.9.8, figure 133): receives REQ, sends REP,
// receives RTU.
#pragma once

#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_factory.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/manager_core.hpp"
#include "daemon/roce/cm/state_machine.hpp"

namespace softhca::management::cm {

class PassiveSide {
 public:
  /// All outlive it.
  PassiveSide(const ManagerCore& core, ConnectionFactory& factory, StateMachine& machine)
      : user_(core.user),
        local_(core.local),
        connections_(core.connections),
        factory_(factory),
        machine_(machine),
        sender_(core.sender),
        counters_(core.counters) {}
  PassiveSide(const PassiveSide&) = delete;
  PassiveSide& operator=(const PassiveSide&) = delete;

  void receive_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path, Time now);
  /// See Manager.
  Result accept(CommId id, const AcceptParameters& parameters, Time now);

 private:
  void offer(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path, Time now);
  void refuse(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
              wire::CmRejectReason reason, Time now);

  User& user_;
  const LocalEnd& local_;
  ConnectionTable& connections_;
  ConnectionFactory& factory_;
  StateMachine& machine_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
