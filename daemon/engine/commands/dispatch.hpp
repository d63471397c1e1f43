// SPDX-License-Identifier: Apache-2.0

// How commands come to their transport. Doorbells in the send queue scheduler stand for commands in
// send queues. The engine fetches these into PCBs of their class, as those of VCBs are, else into
// dedicated PCBs (mechanisms A4, A9, B2). The arbitrator gives commands their credits (A11, A12).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/command_store.hpp"

namespace softhca::engine {

class Dispatch {
 public:
  Dispatch(const CommandCore& core, RateControl& rates)
      : clock_(core.clock),
        queue_pairs_(core.queue_pairs),
        cpu_(core.cpu),
        commands_(core.commands),
        pcbs_(core.pcbs),
        scheduler_(core.scheduler),
        arbitrator_(core.arbitrator),
        rates_(rates) {}

  /// Fetches the commands that doorbells stand for from send queues into PCBs, where they wait for
  /// credits. Returns how many.
  std::size_t fetch();
  /// Returns the command that is to start next, with its credits; nothing: no command may start.
  OptionalPcb next();

 private:
  bool obeys_rates(QueuePair& qp);
  static bool may_fetch(const QueuePair& qp, std::uint32_t sequence);
  OptionalPcb kick(QueuePair& qp, schedule::KickedIn& list);
  OptionalPcb kick_dedicated(QueuePair& qp, schedule::KickedIn& list);
  OptionalPcb place_for(QueuePair& qp, std::uint32_t sequence, schedule::KickedIn& list);
  std::uint32_t fetch_some(QueuePair& qp, const schedule::FetchTurn& turn, std::uint64_t end);

  const StepClock& clock_;
  const QpTable& queue_pairs_;
  CpuScheduler& cpu_;
  CommandStore& commands_;
  collect::PcbPool& pcbs_;
  schedule::SendQueueScheduler& scheduler_;
  schedule::KickArbitrator& arbitrator_;
  RateControl& rates_;
};

}  // namespace softhca::engine
