// SPDX-License-Identifier: Apache-2.0

// Messages between two connected queue pairs of one daemon, of RC, XRC or UC. One copy moves the
// data from the memory of one process to that of the other, with the checks, errors, waits and
// retries of the wire.
//
// The sending end does all the work: it finds its peer, draws the peer's receive, copies, and
// completes at both ends. A long message moves one piece per turn, so that it does not delay
// others. Each piece repeats the checks of the beginning, because the queue pair and regions may be
// gone by then.
//
// A request is in one of three states. Ready: nothing has happened. Moving: the checks are done and
// the receive is drawn. Waiting: for the peer, as if packets were unanswered; for a receive, as
// after an RNR NAK; or for the peer's rates. tests/unit/roce/transport/local_states.approved lists
// the effect of each event in each state.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/roce/transport/local/link.hpp"
#include "daemon/roce/transport/local/message_checks.hpp"
#include "daemon/roce/transport/position.hpp"
#include "daemon/roce/transport/send_progress.hpp"
#include "daemon/roce/transport/send_queue.hpp"

namespace softhca::transport {

/// The upcalls of the sending end, in addition to the link.
struct LocalUpcalls {
  template <std::derived_from<CompletionSink> All>
  LocalUpcalls(All& all) : commands(all), events(all) {}
  CompletionSink& commands;
  QueuePairEvents& events;
};

class Local {
 public:
  enum class State : std::uint8_t { kReady, kMoving, kWaiting };

  /// Like Requester::open().
  void open(RequestTable& table, std::uint32_t requests) { queue_.open(table, requests); }
  /// `reliable`: RC or XRC, else UC.
  void configure(const RcAttributes& attributes, bool reliable);
  /// Drops all requests without completing them. `former`: where an earlier engine was. The peer
  /// may have taken the first request from there already.
  void reset(const WirePosition* former = nullptr);
  void reset_sender(Psn sq_psn) {
    reset();
    checks_.position().send = sq_psn;
  }
  void reset_receiver(Psn rq_psn) { checks_.position().receive = rq_psn; }
  /// Returns the PSNs, with which the connection could continue on the wire. The peer moves
  /// `receive` on.
  WirePosition& position() { return checks_.position(); }
  const WirePosition& position() const { return checks_.position(); }
  void expire(const LocalUpcalls&, Time) {}
  /// No packet comes for a local queue pair.
  bool receive(const LocalUpcalls&, const wire::Headers&, std::span<const std::byte>, Time) {
    return false;
  }

  bool idle() const { return queue_.empty(); }
  /// Returns the current request. REQUIRES: !idle().
  const Request& oldest() const { return queue_.front(); }
  /// REQUIRES: the send queue has room for it.
  void start(const Request& request) { queue_.push(request); }
  /// Executes requests, up to `budget` in units of LocalLink::charge(). Returns true if it could
  /// continue right away, or must poll in the next step.
  bool transmit(LocalLink& link, const LocalUpcalls& up, Time now, std::uint32_t budget);
  /// True if the peer leaves the current request unanswered, because it expects another PSN.
  /// REQUIRES: !idle().
  bool misses(const LocalPeer& peer) const { return reliable_ && checks_.misses(peer, queue_); }
  /// True if it waits for its peer: nothing happens before deadline(), or before the peer wakes it;
  /// then call transmit(). Without a request (see withdraw()) the wait ends when a request is
  /// needed to go on.
  bool is_held() const { return sleeping_; }
  /// Returns when transmit() is to be called again; kNever if it does not wait.
  Time deadline() const {
    return wait_ != Wait::kNone && (sleeping_ || !queue_.empty()) ? wait_until_ : kNever;
  }
  /// Withdraws all requests and calls visit(pcb) for each, oldest first. The duration and number of
  /// its waits stay. REQUIRES: is_held(), so that no request has begun.
  template <class Visit>
  void withdraw(Visit&& visit) {
    abandon(visit);
  }
  /// Does nothing: requests are executed in order, so none waits for earlier ones unless it is
  /// held.
  template <class Visit>
  void withdraw_unsent(Visit&&) {}
  /// Like withdraw(), in any state; reset() or flush() must follow.
  template <class Visit>
  void abandon(Visit&& visit) {
    while (!queue_.empty()) visit(queue_.pop());
  }
  /// Completes all requests with kFlushed.
  void flush(const LocalUpcalls& up);

  /// Returns the progress in requests.
  SendProgress progress() const {
    return {.obstacle = obstacle(), .unsent = queue_.size(), .outstanding = queue_.size()};
  }
  State state() const {
    if (moving_) return State::kMoving;
    return wait_ != Wait::kNone ? State::kWaiting : State::kReady;
  }

 private:
  enum class Step : std::uint8_t {
    kGoOn,      ///< begun or ended: check the queue again
    kPolling,   ///< waits for something that the next poll step may find
    kSleeping,  ///< waits for its deadline or a call
  };
  enum class Wait : std::uint8_t { kNone, kPeer, kReceive, kRate };
  /// Arguments of one call of transmit().
  struct Turn {
    LocalLink& link;
    const LocalUpcalls& up;
    Time now;
    std::uint64_t budget;
  };

  // local.cpp
  Step step(Turn& turn);
  Step begin(const Turn& turn, const LocalPeer& peer, const Request& request);
  Step meet_other_psn(const Turn& turn, const LocalPeer& peer, const Request& request);
  Step draw(const Turn& turn, const LocalPeer& peer, const Request& request);
  Step move(Turn& turn, const LocalPeer& peer, const Request& request);
  Step finish(const Turn& turn, const LocalPeer& peer, const Request& request);
  Step refuse(const Turn& turn, const LocalPeer& peer, Verdict verdict, Verdict of_receive);
  Step end(const Turn& turn, Verdict verdict);
  Step set_moving(const Turn& turn, const Request& request);

  // local_wait.cpp
  Step wait_for_peer(const Turn& turn);
  Step wait_for_receive(const Turn& turn, const LocalPeer& peer);
  Step wait_for_rate(const Turn& turn, const LocalPeer& peer, const Request& request);
  void pause(Time now, Wait what, Duration wait);
  /// True if it waits for what packets of the peer, or their absence, would report.
  bool waits_for_peer() const { return wait_ == Wait::kPeer || wait_ == Wait::kReceive; }
  SendObstacle obstacle() const;
  void tell_waiting(const LocalUpcalls& up);
  bool wants_request(LocalLink& link, const LocalUpcalls& up, Time now);
  /// Resets the oldest request to its state at the start.
  void start_over();

  RcAttributes attributes_;
  MessageChecks checks_;
  bool reliable_ = true;
  std::uint16_t bad_accesses_ = 0;  ///< UC: since reset()
  bool resumed_ = false;            ///< no request has ended since reset() with a former position
  SendQueue queue_;

  // The oldest request.
  bool moving_ = false;
  Wait wait_ = Wait::kNone;
  bool sleeping_ = false;         ///< waiting, and polling is of no use
  std::uint8_t rnr_retries_ = 0;  ///< used up
  std::uint8_t retries_ = 0;      ///< used up
  std::uint32_t offset_ = 0;      ///< bytes moved
  std::uint32_t piece_ = 0;       ///< piece for which the link was busy, in bytes; 0: none
  std::uint32_t told_ = 0;        ///< requests reported to CompletionSink as waiting
  Time waiting_since_{};
  Time wait_until_{};
};

/// A message that is moved in part begins anew with the next engine.
inline SentPosition sent_position(const Local& local) {
  return {local.position().send, local.position().send_sequence};
}
inline TakenPosition taken_position(const Local& local) {
  return {.expected = local.position().receive, .sequence = local.position().receive_sequence};
}

}  // namespace softhca::transport
