// Queue pairs that cannot go on, since their peer has no receive or is not there, or their program
// drains them: their commands go back to the send queue and are fetched again when they may go on
// (as in A5). What they held, PCBs, credits and room in kick lists, is for others meanwhile:
// however many queue pairs wait for their peers, no other one waits for them.
//
// Every command stands in its send queue until it has completed, so nothing is lost. Nothing
// happens twice: the peer has executed nothing of the commands, or, where it is silent, takes what
// it has executed for repeated, as they are sent with the numbers that they had.
//
// A queue pair is *stalled* when all its commands wait for its peer. It is *set aside* when only
// those wait of which nothing was sent: for requests before them (a fence, reads under way), the
// peer's credits, the pace that congestion has set, or the link address of the next hop. What is on
// the wire stays there, and goes on.
#pragma once

#include "daemon/engine/command_store.hpp"

namespace softhca::engine {

class QpStall {
 public:
  QpStall(CommandStore& commands, collect::PcbPool& pcbs, schedule::SendQueueScheduler& scheduler)
      : commands_(commands), pcbs_(pcbs), scheduler_(scheduler) {}

  /// Which of the commands that are handed to the transport.
  enum class Started : std::uint8_t { kNone, kUnsent, kAll };
  /// Gives back the commands that are not handed to the transport, and of the others `started`.
  /// REQUIRES for all: the transport is held. True: there were any.
  bool give_back(QueuePair& qp, Started started);
  /// Its oldest command waits for its peer, and all others for that one.
  void stall(QueuePair& qp);
  /// Goes on with one command at a time until one has succeeded.
  void resume(QueuePair& qp);
  /// After a turn of the queue pair: sets it aside if its next command has waited for some time, or
  /// lets it go on if it may. `look_at` of it is when this is to be called again at the latest.
  void watch(QueuePair& qp, Time now);
  /// It waits for nothing any more: it was reset, or is in the error state.
  void forget(QueuePair& qp);
  /// How long a stalled queue pair waits until it tries again, at least, so that all of its tenant
  /// together take a small part of the engine's time, however many they are. (The RNR NAK timer is
  /// a minimum, too: IBA 9.7.5.2.8.)
  static Duration least_wait(const QueuePair& qp);
  /// May a queue pair that is `sparing` fetch a command? None is here of which something is to be
  /// sent.
  static bool has_sent_all(const QueuePair& qp);
  /// True if a stalled queue pair waits for a receive or an answer of its peer, and not for its
  /// turn at a rate.
  static bool waits_for_peer(const QueuePair& qp);

 private:
  static void end(QueuePair& qp);
  static SetAside wait_of(const QueuePair& qp, const transport::SendProgress& progress, Time now);
  static bool may_go_on(const QueuePair& qp, const transport::SendProgress& progress, Time now);
  void set_aside(QueuePair& qp, SetAside wait, PcbId half_sent, Time now);
  static void end_aside(QueuePair& qp);

  CommandStore& commands_;
  collect::PcbPool& pcbs_;
  schedule::SendQueueScheduler& scheduler_;
};

}  // namespace softhca::engine
