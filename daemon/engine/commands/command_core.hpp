// SPDX-License-Identifier: Apache-2.0

// What the parts of an engine that move commands share: the commands, the queues in which they
// wait, and what they wait for there.
#pragma once

namespace softhca::collect {
class PcbPool;
}

namespace softhca::schedule {
class KickArbitrator;
class SendQueueScheduler;
class TvlTable;
}  // namespace softhca::schedule

namespace softhca::engine {

class CommandStore;
class CpuScheduler;
class QpTable;
struct StepClock;

/// All outlive the parts.
struct CommandCore {
  const StepClock& clock;
  QpTable& queue_pairs;
  CpuScheduler& cpu;
  collect::PcbPool& pcbs;
  schedule::SendQueueScheduler& scheduler;
  schedule::TvlTable& tvls;
  schedule::KickArbitrator& arbitrator;
  CommandStore& commands;
};

}  // namespace softhca::engine
