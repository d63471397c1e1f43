// SPDX-License-Identifier: Apache-2.0

// Makes connections within the limits, with unguessable communication ids.
#pragma once

#include "daemon/roce/cm/address_validation.hpp"
#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/manager_core.hpp"
#include "daemon/roce/cm/state_machine.hpp"

namespace softhca::management::cm {

class ConnectionFactory {
 public:
  /// All outlive it.
  ConnectionFactory(const ManagerCore& core, CmEnvironment& environment,
                    AddressValidation& validation, StateMachine& machine)
      : environment_(environment),
        user_(core.user),
        local_(core.local),
        connections_(core.connections),
        validation_(validation),
        machine_(machine),
        sender_(core.sender),
        counters_(core.counters) {}
  ConnectionFactory(const ConnectionFactory&) = delete;
  ConnectionFactory& operator=(const ConnectionFactory&) = delete;

  /// Makes a connection. If the limit is reached, drops the oldest one without a user. Returns null
  /// if there is none.
  Connection* make(const Path& path, State state);
  /// Like make(), for a request of a peer. Returns null in two cases: a limit is reached, which the
  /// user is notified of, or the peer must first answer a challenge to its address, and its request
  /// is kept.
  Connection* make_half_open(const Path& path, State state, const wire::Mad& request, Time now);

 private:
  CommId draw_id();
  Connection* refuse(OverLimit limit);

  CmEnvironment& environment_;
  User& user_;
  const LocalEnd& local_;
  ConnectionTable& connections_;
  AddressValidation& validation_;
  StateMachine& machine_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
