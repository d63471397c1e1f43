// Queue pairs that cannot go on, since their peer has no receive or is not there, or their program
// drains them: their commands go back to the send queue and are fetched again when they may go on
// (as in A5). What they held, PCBs, credits and room in kick lists, is for others meanwhile:
// however many queue pairs wait for their peers, no other one waits for them.
//
// Every command stands in its send queue until it has completed, so nothing is lost. Nothing
// happens twice: the peer has executed nothing of the commands, or, where it is silent, takes what
// it has executed for repeated, as they are sent with the numbers that they had.
#pragma once

#include "daemon/engine/command_store.hpp"

namespace softhca::engine {

class QpStall {
 public:
  QpStall(CommandStore& commands, collect::PcbPool& pcbs, schedule::SendQueueScheduler& scheduler)
      : commands_(commands), pcbs_(pcbs), scheduler_(scheduler) {}

  /// Gives back the commands that are not handed to the transport and, if `started`, those that
  /// are. REQUIRES for these: the transport is held.
  void give_back(QueuePair& qp, bool started);
  /// Its oldest command waits for its peer, and all others for that one.
  void stall(QueuePair& qp);
  /// Goes on with one command at a time until one has succeeded.
  void resume(QueuePair& qp);
  /// It waits for nothing any more: it was reset, or is in the error state.
  void forget(QueuePair& qp);
  /// How long a stalled queue pair waits until it tries again, at least, so that all of its tenant
  /// together take a small part of the engine's time, however many they are. (The RNR NAK timer is
  /// a minimum, too: IBA 9.7.5.2.8.)
  static Duration least_wait(const QueuePair& qp);

 private:
  static void end(QueuePair& qp);

  CommandStore& commands_;
  collect::PcbPool& pcbs_;
  schedule::SendQueueScheduler& scheduler_;
};

}  // namespace softhca::engine
