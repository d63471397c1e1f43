// SPDX-License-Identifier: Apache-2.0

// Assigns TVLs to the commands of a queue pair (mechanism A12), and moves them when a TVL is
// closed. It derives the weights of tenants and classes in the engine's time from the weights of
// their TVLs.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/command_intake.hpp"
#include "daemon/engine/commands/command_store.hpp"

namespace softhca::engine {

class TvlAssignment {
 public:
  TvlAssignment(const CommandCore& core, CommandIntake& intake, std::uint16_t tenants,
                std::uint16_t classes)
      : queue_pairs_(core.queue_pairs),
        commands_(core.commands),
        cpu_(core.cpu),
        intake_(intake),
        tvls_(core.tvls),
        arbitrator_(core.arbitrator),
        tenants_(tenants),
        classes_(classes) {}

  /// As TvlTable::add(), change() and close(). Waiting commands see the change.
  Expected<TvlId> add(const schedule::TvlTerms& config);
  Outcome change(TvlId id, const schedule::TvlTerms& config);
  Outcome close(TvlId id);
  /// Determines all weights again: a class may belong to another tenant now.
  void find_weights();

  /// Assigns TVLs to the queue pair. REQUIRES: its tenant has TVLs of both kinds.
  void join(QueuePair& qp);
  /// Ends the queue pair's use of its TVLs.
  void leave(QueuePair& qp);

 private:
  void refresh();
  std::optional<TvlId> tvl_for(const QueuePair& qp, schedule::TvlPurpose purpose) const;
  bool replace(QueuePair& qp, TvlId id);
  void empty(TvlId id);

  const QpTable& queue_pairs_;
  CommandStore& commands_;
  CpuScheduler& cpu_;
  CommandIntake& intake_;
  schedule::TvlTable& tvls_;
  schedule::KickArbitrator& arbitrator_;
  std::uint16_t tenants_;
  std::uint16_t classes_;
};

}  // namespace softhca::engine
