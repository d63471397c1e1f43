// SPDX-License-Identifier: Apache-2.0

// Applies an input to a connection: looks up the transition, sends its message, changes the state,
// sets the timer, and then notifies the user.
#pragma once

#include "daemon/base/time.hpp"
#include "daemon/roce/cm/address_validation.hpp"
#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/manager_core.hpp"
#include "daemon/roce/cm/transitions.hpp"

namespace softhca::management::cm {

class StateMachine {
 public:
  /// All outlive it.
  StateMachine(const ManagerCore& core, AddressValidation& validation)
      : user_(core.user),
        local_(core.local),
        connections_(core.connections),
        validation_(validation),
        sender_(core.sender),
        counters_(core.counters) {}
  StateMachine(const StateMachine&) = delete;
  StateMachine& operator=(const StateMachine&) = delete;

  /// Applies the input. Returns false, without any effect, if it is not valid in this state. After
  /// true the connection may be gone.
  bool run(Connection& c, Input input, Time now, const Details& details = {});
  /// Applies a call of the user to one of its connections.
  Result call(CommId id, Input input, Time now, const Details& details = {});
  /// Returns the connection of this id if it has a user, else null.
  Connection* owned(CommId id);
  /// Sends the first message of a new connection and retransmits it until it is answered.
  void begin(Connection& c, const wire::Mad& mad, Time now);
  /// Handles timers that are due, a bounded number per call.
  void expire(Time now);

 private:
  void act(Connection& c, const Transition& t, Time now, const Details& details);
  void set_timer(Connection& c, const Transition& t, State before, Time now, Input input,
                 const Details& details);
  /// Sets the retry timer. A half-open connection waits at most CmLimits::longest_half_open.
  void arm_retry(Connection& c, Time at);
  void keep_and_send(Connection& c, const wire::Mad& mad);
  void keep_dreq(Connection& c);

  User& user_;
  const LocalEnd& local_;
  ConnectionTable& connections_;
  AddressValidation& validation_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
