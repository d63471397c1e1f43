// What an input does to a connection: its transition is looked up, its message goes, the state
// changes, the timer is set, and finally the user is told.
#pragma once

#include "daemon/base/time.hpp"
#include "daemon/management/cm/address_validation.hpp"
#include "daemon/management/cm/connection_table.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/mad_sender.hpp"
#include "daemon/management/cm/parameters.hpp"
#include "daemon/management/cm/transitions.hpp"

namespace softhca::management::cm {

class StateMachine {
 public:
  /// All outlive it.
  StateMachine(User& user, const LocalEnd& local, ConnectionTable& connections,
               AddressValidation& validation, MadSender& sender, Counters& counters)
      : user_(user),
        local_(local),
        connections_(connections),
        validation_(validation),
        sender_(sender),
        counters_(counters) {}
  StateMachine(const StateMachine&) = delete;
  StateMachine& operator=(const StateMachine&) = delete;

  /// False: the input means nothing in this state, and nothing was done. Otherwise the connection
  /// may be gone.
  bool run(Connection& c, Input input, Time now, const Details& details = {});
  /// Runs a call of the user for one of its connections.
  Result call(CommId id, Input input, Time now, const Details& details = {});
  /// The connection of this id if it has a user, else null.
  Connection* owned(CommId id);
  /// Sends the first message of a connection that begins here; it goes again until it is answered.
  void begin(Connection& c, const wire::Mad& mad, Time now);
  /// Runs timers that are due, a bounded number at a time.
  void expire(Time now);

 private:
  void act(Connection& c, const Transition& t, Time now, const Details& details);
  void set_timer(Connection& c, const Transition& t, State before, Time now, Input input,
                 const Details& details);
  /// A half-open connection waits no longer than Limits::longest_half_open.
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
