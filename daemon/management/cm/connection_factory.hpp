// Makes connections within the limits, with communication ids that nobody can guess.
#pragma once

#include "daemon/management/cm/address_validation.hpp"
#include "daemon/management/cm/connection_table.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/mad_sender.hpp"
#include "daemon/management/cm/parameters.hpp"
#include "daemon/management/cm/state_machine.hpp"

namespace softhca::management::cm {

class ConnectionFactory {
 public:
  /// All outlive it.
  ConnectionFactory(Environment& environment, User& user, const LocalEnd& local,
                    ConnectionTable& connections, AddressValidation& validation,
                    StateMachine& machine, MadSender& sender, Counters& counters)
      : environment_(environment),
        user_(user),
        local_(local),
        connections_(connections),
        validation_(validation),
        machine_(machine),
        sender_(sender),
        counters_(counters) {}
  ConnectionFactory(const ConnectionFactory&) = delete;
  ConnectionFactory& operator=(const ConnectionFactory&) = delete;

  /// Null: there is no place. Connections that nobody waits for give way.
  Connection* make(const Path& path, State state);
  /// As make(), for a request of a peer. Null: there is no place, and the user has been told; or
  /// the peer has been asked whether its address is its own, and its request is kept.
  Connection* make_half_open(const Path& path, State state, const wire::Mad& request, Time now);

 private:
  CommId draw_id();
  Connection* refuse(OverLimit limit);

  Environment& environment_;
  User& user_;
  const LocalEnd& local_;
  ConnectionTable& connections_;
  AddressValidation& validation_;
  StateMachine& machine_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
