// SPDX-License-Identifier: Apache-2.0

// Service ID resolution (12.11): finds the queue pair of a peer behind a service id, for datagrams.
// Sends SIDR_REQ until SIDR_REP arrives. Keeps its own replies for duplicates.
#pragma once

#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_factory.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/manager_core.hpp"
#include "daemon/roce/cm/state_machine.hpp"

namespace softhca::management::cm {

class ServiceIdResolution {
 public:
  /// All outlive it.
  ServiceIdResolution(const ManagerCore& core, ConnectionFactory& factory, StateMachine& machine)
      : user_(core.user),
        local_(core.local),
        connections_(core.connections),
        factory_(factory),
        machine_(machine),
        sender_(core.sender),
        counters_(core.counters) {}
  ServiceIdResolution(const ServiceIdResolution&) = delete;
  ServiceIdResolution& operator=(const ServiceIdResolution&) = delete;

  /// See Manager.
  Started request(const SidrParameters& parameters, Time now);
  Result reply(CommId id, const SidrReplyParameters& parameters, Time now);

  void receive_req(const wire::CmSidrReq& m, std::uint64_t transaction_id, const Path& path,
                   Time now);
  void receive_rep(const wire::CmSidrRep& m, const Path& path, Time now);

 private:
  User& user_;
  const LocalEnd& local_;
  ConnectionTable& connections_;
  ConnectionFactory& factory_;
  StateMachine& machine_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
