// SPDX-License-Identifier: Apache-2.0

// The requester of a reliable connection, of RC or XRC: segments requests into packets, keeps the
// requests until they are acknowledged, and goes back after a loss (InfiniBand specification,
// volume 1, 9.7).
//
// Go-back-N with a cursor. Everything before `unacked_` is complete; the cursor (`next_`,
// `next_psn_`) is at the packet that is sent next. A retry moves the cursor back to `unacked_`.
// transmit() then goes forward again over the same requests, which are private to the daemon and
// unchanged. A read takes as many PSNs as it has response packets; a partly answered one is
// requested again from its first missing response on.
//
// If the peer buffers packets behind a lost one, or may do so, only the lost packet is
// retransmitted, and the cursor stays where it is (selective_repeat.hpp).
//
// The congestion window follows losses. A retry comes as soon as the measured round-trip time makes
// a loss likely (pace.hpp). Such an early retry is not counted, nor is one that a NAK requests
// while the timeout runs. So retry_count and timeout keep their meaning for a silent peer.
//
// If a peer stays silent after the requests were sent again, they are withdrawn until the next
// retry is due. So requests to silent peers, however many, hold no resources that others need. An
// acknowledgement that arrives meanwhile is recorded and completes them when they start again.
// Requests that wait for earlier ones, or for a receive of the peer, can be withdrawn separately.
//
// The files: requester.cpp (life of a request), requester_transmit.cpp (what may be sent, and as
// which packet), requester_receive.cpp (acknowledgements and responses), requester_repair.cpp
// (selective repeat, probes), requester_retry.cpp (NAK, RNR, timeouts).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/pace.hpp"
#include "daemon/roce/transport/position.hpp"
#include "daemon/roce/transport/reliable/end_to_end_credits.hpp"
#include "daemon/roce/transport/reliable/retry_timer.hpp"
#include "daemon/roce/transport/reliable/selective_repeat.hpp"
#include "daemon/roce/transport/reliable/silence.hpp"
#include "daemon/roce/transport/send_progress.hpp"
#include "daemon/roce/transport/send_queue.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {

class Requester {
 public:
  /// Sets the table of its requests, and their maximum. Call it once, before all other functions.
  void open(RequestTable& table, std::uint32_t requests) { queue_.open(table, requests); }
  /// May be called again (a modify in RTS) and takes effect from the next packet on. The MTU must
  /// not change while requests are pending.
  void configure(const RcAttributes& attributes);
  /// Drops all requests without completing them. `resumes`: an earlier engine has sent from this
  /// position on. The requests that it had begun must be started again, as such: what the peer has
  /// of them is a duplicate to it.
  void reset(const SentPosition& position, bool resumes = false);
  /// Returns where the requests stand.
  SentPosition sent() const {
    if (queue_.empty()) return {queued_end_, queued_sequence_, unacked_, sent_.end};
    const Slot& oldest = queue_[queue_.oldest()];
    return {oldest.first, oldest.sequence, unacked_, sent_.end};
  }

  bool full() const { return queue_.full(); }
  /// Adds a request; transmit() sends it. REQUIRES: !full().
  void start(const Request& request);

  /// Sends up to `packet_budget` packets. Returns true if it could continue right away (the budget
  /// is used up or the port is full). Returns false if there is nothing to send until something is
  /// received or started, or until the deadline.
  bool transmit(const RequesterUpcalls& up, Time now, unsigned packet_budget);
  /// Handles a response packet: ACK, NAK, RNR NAK, read response, atomic response. Other packets
  /// are counted and dropped. Sends nothing; call transmit() afterwards.
  void receive(const RequesterUpcalls& up, const wire::Headers& h,
               std::span<const std::byte> payload, Time now);
  /// Call this when deadline() has come (harmless earlier), then transmit().
  void expire(const RequesterUpcalls& up, Time now);
  /// True if nothing is sent before deadline(): the peer had no receive for the oldest request (RNR
  /// NAK), or it is silent (rest_if_silent()).
  bool is_held() const { return timer_.is_held(); }
  /// Suspends the requester until the next retry or answer if the peer is silent: some retries are
  /// unanswered and the last one was sent, or the peer is unreachable. Returns true if it is
  /// suspended now.
  bool rest_if_silent(bool unreachable) {
    if (!(silence_.is_long() || unreachable) || failed_ || in_flight() == 0 || !timer_.runs() ||
        is_held())
      return false;
    timer_.rest();
    return true;
  }
  /// Withdraws the requests of which nothing was ever sent, and calls visit(pcb) for each, oldest
  /// first. They may be started again, in the same order.
  template <class Visit>
  void withdraw_unsent(Visit&& visit) {
    const PcbId last =
        queue_.last_of_first([&](const Slot& slot) { return slot.first.is_before(sent_.end); });
    const PcbId first = last == SendQueue::kEnd ? queue_.oldest() : queue_.next(last);
    if (first == SendQueue::kEnd) return;
    const Slot& slot = queue_[first];
    queued_end_ = slot.first;
    queued_sequence_ = slot.sequence;
    withdrawn_ = {true, slot.request.fence, slot.request.kind, false};
    if (!next_psn_.is_before(queued_end_)) next_ = SendQueue::kEnd;
    queue_.cut_behind(last, visit);
  }
  /// Withdraws all requests and calls visit(pcb) for each, oldest first. The same requests may be
  /// started again in the same order. They keep their PSNs, and the oldest continues behind the
  /// packets that the peer has acknowledged (at most all but the last of a write with immediate
  /// data). The peer treats what it has executed but not acknowledged as duplicates. REQUIRES:
  /// is_held().
  template <class Visit>
  void withdraw(Visit&& visit) {
    begin_withdrawal();
    while (!queue_.empty()) visit(queue_.pop());
    next_ = SendQueue::kEnd;
  }
  /// Like withdraw(), in any state; reset() must follow.
  template <class Visit>
  void abandon(Visit&& visit) {
    while (!queue_.empty()) visit(queue_.pop());
  }
  /// Returns when expire() is to be called; kNever if no timer runs.
  Time deadline() const {
    if (failed_) return kNever;
    if (is_held()) return timer_.deadline();
    // Withdrawn requests are waited for again once they have been retransmitted.
    if (queue_.empty()) return withdrawn_.any ? pause_.until() : kNever;
    // With nothing in flight, no answer is awaited; transmit() reports whether it could continue.
    if (in_flight() == 0 && pause_.runs()) return pause_.until();
    if (in_flight() == 0 && timer_.goes_later()) return kNever;
    return std::min(timer_.deadline(), pause_.until());
  }
  /// Returns the progress in packets; a read counts its responses. Nothing outstanding means idle.
  SendProgress progress() const;
  /// Completes all requests with kFlushed, since the queue pair is in the error state. Then the
  /// requester is silent until reset(); requests started meanwhile wait for the next flush().
  void flush(const RequesterUpcalls& up);

 private:
  using Slot = RequestSlot;
  enum class Step : std::uint8_t { kSent, kWait, kPortFull };

  // requester_transmit.cpp
  Step send_next(const RequesterUpcalls& up, Time now);
  Step refuse_request(const RequesterUpcalls& up, Verdict verdict);
  SendObstacle obstacle(const Slot& slot, std::uint32_t index) const;
  bool wants_ack(const Slot& slot, std::uint32_t index) const;
  void note_sent(const RequesterUpcalls& up, const Slot& slot, std::uint32_t index, bool asked,
                 Time now);

  // requester_receive.cpp
  void receive_acknowledge(const RequesterUpcalls& up, const wire::Headers& h, Time now);
  void receive_response(const RequesterUpcalls& up, const ResponsePacket& p, Time now);
  bool acknowledge_before(const RequesterUpcalls& up, Psn end, Time now);
  void advance(const RequesterUpcalls& up, std::uint32_t packets, Psn end, Time now);
  void hear_peer(const wire::Headers& h);

  // requester_repair.cpp
  bool send_again(const RequesterUpcalls& up, Time now, unsigned& packet_budget);
  void miss_request(const RequesterUpcalls& up, bool discarded, Time now);
  void miss_response(const RequesterUpcalls& up, Time now);
  void catch_up(const RequesterUpcalls& up, Time now);
  void probe(const RequesterUpcalls& up, Time now);

  // requester_retry.cpp
  void receive_nak(const RequesterUpcalls& up, const wire::Headers& h, Time now);
  void receive_rnr(const RequesterUpcalls& up, const wire::Headers& h, Time now);
  void retry_as_told(const RequesterUpcalls& up, Time now);
  bool may_retry_as_told(const RequesterUpcalls& up);
  void go_back();
  void begin_withdrawal();
  void fail(const RequesterUpcalls& up, Verdict verdict);

  std::uint32_t in_flight() const {
    return static_cast<std::uint32_t>(next_psn_.distance_from(unacked_));
  }

  RequestFormat format_;

  SendQueue queue_;
  PcbId next_ = SendQueue::kEnd;  ///< request at the cursor; kEnd: all are sent
  Psn next_psn_;                  ///< next packet to be sent
  Psn unacked_;                   ///< oldest PSN not acknowledged, in the oldest request
  struct {
    Psn end;               ///< one beyond the highest PSN ever sent or requested
    Psn former_end;        ///< behind all that an earlier engine had begun, or that is acknowledged
    bool resumes = false;  ///< `former_end` is not known yet
    /// True if the packet may have left. An earlier engine, which was killed, may have sent more
    /// than it recorded.
    bool may_have_left(Psn psn) const {
      return psn.is_before(end) || resumes || psn.is_before(former_end);
    }
    void acknowledged(Psn before) {
      if (before.is_after(end)) end = before;
      if (before.is_after(former_end)) former_end = before;
    }
  } sent_;
  Psn queued_end_;       ///< one beyond the last PSN of the newest request
  Psn queued_sequence_;  ///< SSN of the next request

  FlightWindow flight_;
  RoundTrip round_trip_;
  EndToEndCredits credits_;
  RetryTimer timer_;
  Pause pause_;

  std::uint16_t unasked_ = 0;  ///< packets sent since the last one that requests an acknowledgement
  std::uint16_t reads_in_flight_ = 0;  ///< reads and atomics between unacked_ and the cursor
  Psn acknowledged_;                   ///< everything before it is, including withdrawn requests
  SelectiveRepeat repeat_;
  Silence silence_;
  bool response_missed_ = false;  ///< went back for a missing response; no progress since
  bool exhausted_ = false;        ///< no retry is left for the withdrawn requests
  bool failed_ = false;           ///< nothing is sent or accepted until reset()
  bool moved_ = false;            ///< the last transmit() sent something
  /// First request that withdraw_unsent() took, until one is started.
  struct {
    bool any = false;
    bool fence = false;
    RequestKind kind = RequestKind::kSend;
    bool awaits_response = false;  ///< for withdraw(): the oldest is a read or atomic
  } withdrawn_;

  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_retries_left_ = 0;
};

}  // namespace softhca::transport
