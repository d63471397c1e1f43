// SPDX-License-Identifier: Apache-2.0

// How commands come in. The engine takes them from the session memory of processes: from VCBs
// (mechanisms A4, A5) and by doorbells (B1, C). They become complete commands in PCBs, or go to the
// send queue scheduler. The engine polls processes while they are awake. A process that has posted
// nothing for a while is parked, and signals when it posts something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/command_store.hpp"
#include "daemon/engine/events/async_events.hpp"
#include "daemon/engine/turns/session_poller.hpp"
#include "daemon/qos/collect/collect_controller.hpp"
#include "daemon/qos/collect/function_table.hpp"

namespace softhca::engine {

class CommandIntake {
 public:
  CommandIntake(const CommandCore& core, RateControl& rates, AsyncEvents& async_events,
                EventLog& event_log, std::uint32_t vcbs, std::uint16_t tenants);

  /// The control thread may use it at any time, see function_table.hpp.
  collect::FunctionTable& functions() { return functions_; }
  const std::vector<Session*>& sessions() const { return sessions_; }
  /// The order of turns. It knows whether the turns of a class are contended, and has the weights.
  schedule::RunQueue& order() { return poller_.order(); }

  /// add() polls the session's VCBs and doorbells from now on, and allocates. remove() ends that.
  void add(Session& session);
  void remove(Session& session);
  /// Tells processes on which processor the engine runs, if it has moved.
  void note_cpu(unsigned cpu);

  // --- of a poll step
  /// Takes in what processes have posted, as much as the budget allows. Returns the number of
  /// commands and doorbells.
  std::size_t collect();
  /// Moves surplus doorbells to the overflow buffers, and brings back those that find room (B4,
  /// B5).
  std::size_t relieve_doorbells();
  /// True if a class other than `served` has posted something since the last scan, or has commands
  /// in a send queue that are to be fetched. If not, this call was a scan. Commands of the class
  /// just served can wait for the end of the step, so a class without competitors pays for no scan.
  bool commands_wait(QosClassId served);
  /// True if something that was found is not taken in yet.
  bool has_work() const { return !poller_.empty(); }

  /// Announces the commands of the queue pair before `sequence_end`, as a doorbell of its program
  /// would. Does nothing if they are known or the queue pair does not send.
  void announce(QueuePair& qp, std::uint32_t sequence_end);

  // --- parking
  /// Parks the session. True: it is parked, and signals from now on that it has posted something.
  bool park(Session& session);
  void unpark(Session& session) { unpark(session, cpu_.spent()); }
  /// Wakes a session that has signalled a post, after the engine had done work up to `seen`.
  void unpark(Session& session, std::uint64_t seen);
  std::uint32_t parked() const { return parked_; }

  /// Takes borrowed PCBs from commands that are being written, since their owners may want them. A
  /// process that never finishes a command must not keep its PCB forever. The VCB still holds the
  /// command, and gets a PCB again when one is free.
  void give_back_borrowed();

 private:
  bool has_commands(Session& session);
  std::size_t collect(Session& session, std::uint64_t end);
  std::size_t collect_vcbs(Session& session, std::uint64_t end);
  bool collect_vcb(Session& session, std::uint32_t vcb);
  void release(Session& session, std::uint32_t vcb, std::uint64_t scoreboard);
  bool withdraw(Session& session, std::uint32_t vcb);
  bool has_news(const Session& session, std::uint32_t vcb) const;
  bool lets_park(Session& session);
  bool send_queue_mode(Session& session, std::uint32_t vcb, std::uint64_t scoreboard);
  void accept(Session& session, PcbId pcb);
  std::optional<SendQueueCause> kick(const Session& session, QueuePair& qp, PcbId pcb);
  std::size_t collect_doorbells(Session& session, std::uint64_t end);
  void refuse(const Session& session);
  void drop(const Session& session, Qpn qpn, std::uint32_t sequence_end);
  QueuePair* ring(Session& session, Qpn qpn, std::uint32_t sequence_end);
  void doorbell_fails(QueuePair& qp);
  void fail_session(Session& session);
  QueuePair* find_owned(const Session& session, std::uint32_t qpn) const;
  bool borrows(const Session& session) const;

  const StepClock& clock_;
  const QpTable& queue_pairs_;
  CpuScheduler& cpu_;
  CommandStore& commands_;
  collect::PcbPool& pcbs_;
  schedule::SendQueueScheduler& scheduler_;
  schedule::KickArbitrator& arbitrator_;
  RateControl& rates_;
  AsyncEvents& async_events_;
  EventLog& event_log_;
  collect::FunctionTable functions_;
  collect::CollectController collector_;
  SessionPoller poller_;
  std::vector<Session*> sessions_;
  std::uint32_t parked_ = 0;
  std::optional<unsigned> cpu_number_;  ///< of note_cpu()
};

}  // namespace softhca::engine
