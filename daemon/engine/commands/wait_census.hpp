// SPDX-License-Identifier: Apache-2.0

// Where the time of send commands goes: a periodic census of what commands wait for.
//
// By Little's law the time that commands spend waiting for something is the number of waiting
// commands, summed over time. The engine takes that number some thousand times a second for a few
// queue pairs in rotation, at random intervals. Each number stands for the time since the same
// queue pair was last checked. The path of a command therefore records nothing, and the existing
// state of queue pairs tells what they wait for. The fewer checks find a cause, the less precise is
// its share.
//
// The census comes first in a poll step, when everything is as it was between the steps. Commands
// that a step finishes at once have waited only for its beginning.
//
// A command waits for the same cause as the command before it. A shortage is attributed to the
// engine while the class always has runnable commands: without the shortage, its commands would
// only wait elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/command_intake.hpp"
#include "daemon/engine/commands/guarantee_monitor.hpp"
#include "daemon/engine/memory/memory_waits.hpp"
#include "daemon/engine/turns/slow_memory.hpp"

namespace softhca::engine {

class WaitCensus {
 public:
  WaitCensus(const CommandCore& core, const LocalAddresses& addresses, const CommandIntake& intake,
             const SlowMemory& memory, const MemoryWaits& accesses, EventLog& log,
             std::uint16_t tenants)
      : clock_(core.clock),
        intake_(intake),
        cpu_(core.cpu),
        commands_(core.commands),
        scheduler_(core.scheduler),
        arbitrator_(core.arbitrator),
        memory_(memory),
        accesses_(accesses),
        guarantees_(core.clock, addresses, core.cpu.order(), core.pcbs, core.tvls, log, tenants),
        tvls_(core.tvls.size()),
        classes_(core.pcbs.max_groups()) {}

  /// To be called at the beginning of a poll step, before anything else. The last step began at
  /// `previous`.
  void begin_step(Time previous) {
    if (clock_.now >= due_) take(previous);
  }
  /// Forgets a tenant that is removed: its records must not count for the next tenant with its
  /// number.
  void forget(const Tenant& tenant) { guarantees_.forget(tenant); }

 private:
  /// What a TVL has lacked since the last check.
  struct TvlLack {
    std::uint64_t execution_waits = 0;
    std::uint64_t completion_waits = 0;
    Time looked{};
    WaitCause lacked = WaitCause::kEngine;
  };

  /// Whether a class always had work for the engine.
  struct ClassLoad {
    std::uint32_t rests = 0;
    Time looked{};
    bool saturated = false;
  };

  void take(Time previous);
  void look(Session& session, Duration gap);
  void look(QueuePair& qp);
  static WaitCause cause_of(SetAside aside, transport::SendObstacle obstacle);
  WaitCause in_front(const QueuePair& qp, transport::SendObstacle obstacle) const;
  WaitCause in_kick_list(const QueuePair& qp);
  WaitCause in_send_queue(const QueuePair& qp, std::uint32_t kicked);
  WaitCause lacked(TvlId tvl);
  bool is_saturated(QosClassId qos_class);
  std::uint64_t elapsed(Time& counted) const;

  const StepClock& clock_;
  const CommandIntake& intake_;
  CpuScheduler& cpu_;
  CommandStore& commands_;
  const schedule::SendQueueScheduler& scheduler_;
  const schedule::KickArbitrator& arbitrator_;
  const SlowMemory& memory_;
  const MemoryWaits& accesses_;
  GuaranteeMonitor guarantees_;
  std::vector<TvlLack> tvls_;
  std::vector<ClassLoad> classes_;
  Time due_{};
  Time taken_{};             ///< time of the last census
  std::uint64_t spent_ = 0;  ///< engine time at the last census
  bool busy_ = false;        ///< the engine was busy nearly all the time between the last two
  std::uint32_t random_ = 1;
  std::size_t next_session_ = 0;
};

}  // namespace softhca::engine
