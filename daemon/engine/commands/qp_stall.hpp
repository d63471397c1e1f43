// SPDX-License-Identifier: Apache-2.0

// Handles queue pairs that cannot send: their peer has no receive or does not answer, or their
// program drains them. Their commands go back to the send queue and are fetched again when they can
// be sent (as in A5). Others can use the PCBs, credits and room in kick lists that they held.
// However many queue pairs wait for their peers, no other queue pair waits for them.
//
// Every command stays in its send queue until it has completed, so none is lost. No command is
// executed twice. Either the peer has executed nothing of the commands, or, if it is silent, it
// treats what it has executed as duplicates, since the commands are sent again with the same
// numbers.
//
// A queue pair is *stalled* when all its commands wait for its peer. It is *suspended* (SetAside
// in the code) when only commands wait of which nothing was sent. They wait for earlier requests (a
// fence, reads in progress), the peer's credits, the pace that congestion has set, or the link
// address of the next hop. Packets on the wire are not affected.
#pragma once

#include "daemon/engine/commands/command_store.hpp"

namespace softhca::engine {

class QpStall {
 public:
  QpStall(CommandStore& commands, collect::PcbPool& pcbs, schedule::SendQueueScheduler& scheduler)
      : commands_(commands), pcbs_(pcbs), scheduler_(scheduler) {}

  /// Selects commands that were handed to the transport.
  enum class Started : std::uint8_t { kNone, kUnsent, kAll };
  /// Gives back the commands that were not handed to the transport, and of the others those in
  /// `started`. True: there were any. REQUIRES for kAll: the transport waits for its peer
  /// (is_held()).
  bool give_back(QueuePair& qp, Started started);
  /// Stalls the queue pair. Its oldest command waits for its peer, and all others wait for that
  /// one.
  void stall(QueuePair& qp);
  /// Resumes the queue pair, with one command at a time until one has succeeded.
  void resume(QueuePair& qp);
  /// To be called after a turn of the queue pair. Suspends it if its next command has waited for
  /// some time, or lets a suspended one continue if it may. It is to be called again at the latest
  /// at `look_at` of the send queue.
  void watch(QueuePair& qp, Time now);
  /// Ends all waits of the queue pair: it was reset, or is in the error state.
  void forget(QueuePair& qp);
  /// Returns the least time that a stalled queue pair waits before it tries again. It grows with
  /// their number, so that all stalled queue pairs of a tenant together use a small part of the
  /// engine's time. (The RNR NAK timer is a minimum, too: IBA 9.7.5.2.8.)
  static Duration least_wait(const QueuePair& qp);
  /// True if nothing of the commands that the engine has fetched remains to be sent. Only then may
  /// a queue pair in one-at-a-time mode fetch a command.
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
