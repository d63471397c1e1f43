// SPDX-License-Identifier: Apache-2.0

// How commands begin and end. The engine validates a command that holds its credits and hands it to
// the transport of its queue pair. A command that concerns only a memory window runs here. A
// command that is done completes (mechanism B6), and those that waited for it begin.
//
// The files: command_execution.cpp (begin), command_completion.cpp (end), command_windows.cpp.
#pragma once

#include <cstddef>

#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/dispatch.hpp"
#include "daemon/engine/queue_pairs/command_refusals.hpp"
#include "daemon/engine/queue_pairs/qp_environment.hpp"
#include "daemon/engine/receive/completion_queues.hpp"

namespace softhca::engine {

class CommandExecution final : public CommandSink {
 public:
  CommandExecution(const CommandCore& core, Dispatch& dispatch, MemoryAccess& memory,
                   AsyncEvents& async_events, CompletionQueues& completion_queues,
                   const CommandRefusals& refusals, QpHistory& history)
      : clock_(core.clock),
        cpu_(core.cpu),
        commands_(core.commands),
        pcbs_(core.pcbs),
        scheduler_(core.scheduler),
        dispatch_(dispatch),
        memory_(memory),
        async_events_(async_events),
        completion_queues_(completion_queues),
        refusals_(refusals),
        history_(history) {}

  /// Starts commands that have their credits, as many as the budget allows. Returns how many.
  std::size_t start_commands();
  /// Begins the held commands of the queue pair that may start now. Does nothing when it is called
  /// from within itself.
  void release_held(QueuePair& qp);
  // command_completion.cpp
  void complete_command(QueuePair& qp, PcbId pcb, Verdict verdict) override;
  /// Notifies the program of a queue pair in SQD, once, that the queue pair has drained: every
  /// command that has begun is complete. A command that began and was given back must complete
  /// first.
  void report_drained(QueuePair& qp);

 private:
  void start(PcbId pcb);
  void count(QueuePair& qp, PcbId pcb);
  void begin(QueuePair& qp, PcbId pcb);
  void fail_command(QueuePair& qp, PcbId pcb, Verdict verdict);
  std::uint32_t remember_failed(QueuePair& qp, PcbId pcb, Verdict verdict);
  // command_windows.cpp
  void run_window_command(QueuePair& qp, PcbId pcb);

  const StepClock& clock_;
  CpuScheduler& cpu_;
  CommandStore& commands_;
  collect::PcbPool& pcbs_;
  const schedule::SendQueueScheduler& scheduler_;
  Dispatch& dispatch_;
  MemoryAccess& memory_;
  AsyncEvents& async_events_;
  CompletionQueues& completion_queues_;
  const CommandRefusals& refusals_;
  QpHistory& history_;
};

}  // namespace softhca::engine
