// Messages between two connected queue pairs of one daemon, of RC, XRC or UC: from the memory of
// one process to that of the other in one copy, with the checks, errors, waits and retries that
// the wire would bring.
//
// The sending end does it all: it looks for its peer, draws the peer's receive, copies, and
// completes at both ends. A long message moves a piece per turn, so that it holds nobody up; what
// was checked at its beginning is checked again for every piece, since queue pair and regions may
// be gone by then.
//
// A request is in one of three states: ready (nothing of it has happened), moving (the checks are
// done, the receive is drawn), waiting (for the peer, as when packets go unanswered, for a receive
// of it, as after an RNR NAK, or for its rates). tests/unit/transport/local_states.approved has
// what each event does in each of them.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/transport/local/link.hpp"
#include "daemon/transport/send_progress.hpp"
#include "daemon/transport/send_queue.hpp"

namespace softhca::transport {

/// What local delivery uses of the end that sends, beside the link.
struct LocalUpcalls {
  template <std::derived_from<CompletionSink> All>
  LocalUpcalls(All& all) : commands(all), events(all) {}
  CompletionSink& commands;
  QueuePairEvents& events;
};

class Local {
 public:
  enum class State : std::uint8_t { kReady, kMoving, kWaiting };

  /// As Requester::open().
  void open(RequestTable& table, std::uint32_t requests) { queue_.open(table, requests); }
  /// `reliable`: RC or XRC, else UC.
  void configure(const RcAttributes& attributes, bool reliable);
  /// Forgets all requests without completing them.
  void reset();
  /// A local message has no packets.
  void reset_sender(Psn) { reset(); }
  void reset_receiver(Psn) {}
  void expire(const LocalUpcalls&, Time) {}
  /// No packet comes for a local queue pair.
  bool receive(const LocalUpcalls&, const wire::Headers&, std::span<const std::byte>, Time) {
    return false;
  }

  bool idle() const { return queue_.empty(); }
  /// The request at hand. REQUIRES: !idle().
  const Request& oldest() const { return queue_.front(); }
  /// REQUIRES: the send queue has room for it.
  void start(const Request& request) { queue_.push(request); }
  /// Executes requests, up to `budget` in what LocalLink::charge() counts. True when it could go on
  /// right away, or looks again in the next poll step for what it waits for.
  bool transmit(LocalLink& link, const LocalUpcalls& up, Time now, std::uint32_t budget);
  /// True: it waits for its peer, which only time or the peer can end: nothing happens before
  /// deadline(), and then transmit() is to be called. Without a request (see withdraw()) it ends as
  /// soon as one is needed to go on.
  bool is_held() const { return sleeping_; }
  /// When transmit() wants to be called again; kNever when it does not wait.
  Time deadline() const {
    return wait_ != Wait::kNone && (sleeping_ || !queue_.empty()) ? wait_until_ : kNever;
  }
  /// Forgets all requests and calls visit(pcb) for each, oldest first; how long and how often it
  /// has waited stays. REQUIRES: is_held(), so that nothing of them has happened.
  template <class Visit>
  void withdraw(Visit&& visit) {
    abandon(visit);
  }
  /// None waits for those before it, as all are done in order; one that waits for its peer is held.
  template <class Visit>
  void withdraw_unsent(Visit&&) {}
  /// As withdraw(), whatever has happened of the requests; reset() or flush() follows.
  template <class Visit>
  void abandon(Visit&& visit) {
    while (!queue_.empty()) visit(queue_.pop());
  }
  /// Completes everything with kFlushed.
  void flush(const LocalUpcalls& up);

  /// In requests.
  SendProgress progress() const {
    return {.obstacle = obstacle(), .unsent = queue_.size(), .outstanding = queue_.size()};
  }
  State state() const {
    if (moving_) return State::kMoving;
    return wait_ != Wait::kNone ? State::kWaiting : State::kReady;
  }

 private:
  enum class Step : std::uint8_t {
    kGoOn,      ///< begun, or ended: look at the queue again
    kPolling,   ///< waits, and the next poll step may bring what it waits for
    kSleeping,  ///< waits for its deadline, or to be called
  };
  enum class Wait : std::uint8_t { kNone, kPeer, kReceive, kRate };
  /// What one call of transmit() works with.
  struct Turn {
    LocalLink& link;
    const LocalUpcalls& up;
    Time now;
    std::uint64_t budget;
  };

  Step step(Turn& turn);
  Step begin(const Turn& turn, const LocalPeer& peer, const Request& request);
  Verdict check(const LocalPeer& peer, const Request& request) const;
  Step draw(const Turn& turn, const LocalPeer& peer, const Request& request);
  Step move(Turn& turn, const LocalPeer& peer, const Request& request);
  Step finish(const Turn& turn, const LocalPeer& peer, const Request& request);
  Step refuse(const Turn& turn, const LocalPeer& peer, Verdict verdict);
  Step end(const Turn& turn, Verdict verdict);
  Step wait_for_peer(const Turn& turn);
  Step wait_for_receive(const Turn& turn, const LocalPeer& peer);
  Step wait_for_rate(const Turn& turn, const LocalPeer& peer, const Request& request);
  Step set_moving(const Turn& turn, const Request& request);
  void pause(Time now, Wait what, Duration wait);
  /// Waiting for what the peer would tell by packets, or by their absence.
  bool waits_for_peer() const { return wait_ == Wait::kPeer || wait_ == Wait::kReceive; }
  SendObstacle obstacle() const;
  void tell_waiting(const LocalUpcalls& up);
  bool wants_request(LocalLink& link, const LocalUpcalls& up, Time now);
  /// The oldest request is as if it had just been started.
  void start_over();

  RcAttributes attributes_;
  bool reliable_ = true;
  std::uint16_t bad_accesses_ = 0;  ///< UC: since reset()
  SendQueue queue_;

  // The oldest request.
  bool moving_ = false;
  Wait wait_ = Wait::kNone;
  bool sleeping_ = false;         ///< waiting, and the last transmit() saw no use in looking again
  std::uint8_t rnr_retries_ = 0;  ///< used up
  std::uint8_t retries_ = 0;      ///< used up
  std::uint32_t offset_ = 0;      ///< bytes moved
  std::uint32_t piece_ = 0;       ///< being moved: bytes for which the link was busy; 0: none
  std::uint32_t told_ = 0;        ///< requests of which CompletionSink knows that they wait
  Time waiting_since_{};
  Time wait_until_{};
};

}  // namespace softhca::transport
