// SPDX-License-Identifier: Apache-2.0

// The active side of connection establishment (12.9.8, figure 132): sends REQ, receives REP, sends
// RTU.
#pragma once

#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_factory.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/manager_core.hpp"
#include "daemon/roce/cm/state_machine.hpp"

namespace softhca::management::cm {

class ActiveSide {
 public:
  /// All outlive it.
  ActiveSide(const ManagerCore& core, ConnectionFactory& factory, StateMachine& machine)
      : local_(core.local),
        connections_(core.connections),
        factory_(factory),
        machine_(machine),
        sender_(core.sender),
        counters_(core.counters) {}
  ActiveSide(const ActiveSide&) = delete;
  ActiveSide& operator=(const ActiveSide&) = delete;

  /// See Manager.
  Started connect(const ConnectParameters& parameters, Time now);
  Result confirm(CommId id, PrivateData private_data, Time now);

  void receive_rep(const wire::CmRep& m, std::uint64_t transaction_id, const Path& path, Time now);

 private:
  bool take_rep(Connection& c, const wire::CmRep& m, const Path& path, Time now);
  void refuse_stale(Connection& c, const wire::CmRep& m, const Connection& old, const Path& path,
                    Time now);

  const LocalEnd& local_;
  ConnectionTable& connections_;
  ConnectionFactory& factory_;
  StateMachine& machine_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
