// SPDX-License-Identifier: Apache-2.0

// Release of a connection (12.9.6): sends DREQ until DREP arrives, or answers the peer's DREQ.
#pragma once

#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/state_machine.hpp"

namespace softhca::management::cm {

class Release {
 public:
  /// All outlive it.
  Release(ConnectionTable& connections, StateMachine& machine, MadSender& sender,
          Counters& counters)
      : connections_(connections), machine_(machine), sender_(sender), counters_(counters) {}
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

  /// See Manager.
  Result disconnect(CommId id, PrivateData private_data, Time now);

  void receive_dreq(const wire::CmDreq& m, std::uint64_t transaction_id, const Path& path,
                    Time now);

 private:
  ConnectionTable& connections_;
  StateMachine& machine_;
  MadSender& sender_;
  Counters& counters_;
};

}  // namespace softhca::management::cm
