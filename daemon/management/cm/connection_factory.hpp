// Makes connections within the limits, with communication ids that nobody can guess.
#pragma once

#include "daemon/management/cm/connection_table.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/mad_sender.hpp"
#include "daemon/management/cm/parameters.hpp"

namespace softhca::management::cm {

class ConnectionFactory {
 public:
  /// All outlive it.
  ConnectionFactory(Environment& environment, User& user, const LocalEnd& local,
                    ConnectionTable& connections, MadSender& sender, Counters& counters)
      : environment_(environment),
        user_(user),
        local_(local),
        connections_(connections),
        sender_(sender),
        counters_(counters) {}
  ConnectionFactory(const ConnectionFactory&) = delete;
  ConnectionFactory& operator=(const ConnectionFactory&) = delete;

  /// Null: there is no place. Connections that nobody waits for give way.
  Connection* make(const Path& path, State state);
  /// As make(), for a request of a peer. Null: there is no place, and the user has been told.
  Connection* make_half_open(const Path& path, State state);

 private:
  CommId draw_id();

  Environment& environment_;
  User& user_;
  const LocalEnd& local_;
  ConnectionTable& connections_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
