// SPDX-License-Identifier: Apache-2.0

// Adds and removes sessions: the turns and weights of their class, the polling of their VCBs and
// doorbells, and their events.
#pragma once

#include "daemon/engine/commands/tvl_assignment.hpp"

namespace softhca::engine {

class SessionRegistry {
 public:
  SessionRegistry(CpuScheduler& cpu, collect::PcbPool& pcbs, CommandIntake& intake,
                  TvlAssignment& tvl_assignment, AsyncEvents& async_events)
      : cpu_(cpu),
        pcbs_(pcbs),
        intake_(intake),
        tvl_assignment_(tvl_assignment),
        async_events_(async_events) {}

  /// Adds the session to its class. Its memory is not polled before poll().
  void install(Session& session);
  /// Starts polling its VCBs and doorbells. REQUIRES: it is installed.
  void poll(Session& session);
  /// Removes the session. REQUIRES: it has no objects left.
  void remove(Session& session);

 private:
  CpuScheduler& cpu_;
  collect::PcbPool& pcbs_;
  CommandIntake& intake_;
  TvlAssignment& tvl_assignment_;
  AsyncEvents& async_events_;
};

}  // namespace softhca::engine
