// The requester of a reliable connection, of RC or XRC: segments requests into packets, keeps them
// until they are acknowledged, goes back when one was lost (InfiniBand specification, volume
// 1, 9.7).
//
// Go-back-N with a cursor. Everything before `unacked_` is complete; the cursor (`next_`,
// `next_psn_`) says what is sent next. A retry of any kind moves the cursor back to `unacked_`;
// transmit() then goes forward again over the same requests, which are private to the daemon and
// unchanged. A read takes as many PSNs as it has response packets; a partly answered one is asked
// for again from its first missing response on.
//
// Where it is known or may be that the peer keeps what came behind a lost packet, only that packet
// is sent again, with the cursor where it is (selective_repeat.hpp).
//
// How many packets are in flight follows what gets lost, and a retry comes as soon as the measured
// round-trip time makes loss likely (pace.hpp). Such an early retry is not counted, and neither is
// one that a NAK asks for while the timeout runs: retry_count and timeout keep their meaning for a
// peer that stays silent.
//
// Requests for such a peer are withdrawn, once they have been sent again, until the next retry is
// due: however many peers are silent, none of their requests holds what others need. An
// acknowledgement that comes meanwhile is remembered, and completes them when they start again.
// Requests that wait for those before them, or for a receive of the peer, can be withdrawn alone.
//
// The files: requester.cpp (life of a request), requester_transmit.cpp (what may go, and as which
// packet), requester_receive.cpp (acknowledgements and responses), requester_repair.cpp (selective
// repeat, probes), requester_retry.cpp (NAK, RNR, timeouts).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/transport/end_to_end_credits.hpp"
#include "daemon/transport/pace.hpp"
#include "daemon/transport/retry_timer.hpp"
#include "daemon/transport/selective_repeat.hpp"
#include "daemon/transport/send_progress.hpp"
#include "daemon/transport/send_queue.hpp"
#include "daemon/transport/silence.hpp"
#include "daemon/transport/upcalls.hpp"
#include "daemon/wire/headers.hpp"
#include "daemon/wire/opcode.hpp"

namespace softhca::transport {

class Requester {
 public:
  /// To be called once, before all else: where its requests are remembered, and how many at most.
  void open(RequestTable& table, std::uint32_t requests) { queue_.open(table, requests); }
  /// May be called again (a modify in RTS); takes effect from the next packet on. The MTU must not
  /// change while requests are pending.
  void configure(const RcAttributes& attributes);
  /// Forgets all requests without completing them; the next packet has PSN `sq_psn`, and the next
  /// message the number `sequence`.
  void reset(Psn sq_psn, Psn sequence = Psn(1));
  struct Position {
    Psn psn;
    Psn sequence;
  };
  /// Of the next request.
  Position position() const { return {queued_end_, queued_sequence_}; }

  bool full() const { return queue_.full(); }
  /// Takes a request; nothing is sent before transmit(). REQUIRES: !full().
  void start(const Request& request);

  /// Sends up to `packet_budget` packets. True when it could go on right away (budget or port
  /// buffer ended it); false when there is nothing to send until something is received, started or
  /// the deadline expires.
  bool transmit(const RequesterUpcalls& up, Time now, unsigned packet_budget);
  /// A response packet: ACK, NAK, RNR NAK, read response, atomic response. Others are counted and
  /// dropped. Call transmit() afterwards. Sends nothing itself.
  void receive(const RequesterUpcalls& up, const wire::Headers& h,
               std::span<const std::byte> payload, Time now);
  /// To be called when deadline() has come (harmless earlier). Call transmit() afterwards.
  void expire(const RequesterUpcalls& up, Time now);
  /// The peer had no receive for the oldest request (RNR NAK), or it is silent (rest_if_silent()):
  /// nothing goes before deadline().
  bool is_held() const { return timer_.is_held(); }
  /// If the peer has answered none of some retries, and the last of them has gone, or nothing
  /// reaches it (`unreachable`): nothing goes before the next one is due, or an answer comes. True:
  /// that is so from now on.
  bool rest_if_silent(bool unreachable) {
    if (!(silence_.is_long() || unreachable) || failed_ || in_flight() == 0 || !timer_.runs() ||
        is_held())
      return false;
    timer_.rest();
    return true;
  }
  /// Forgets the requests of which nothing was ever sent, and calls visit(pcb) for each, oldest
  /// first. They may be started again, in the same order.
  template <class Visit>
  void withdraw_unsent(Visit&& visit) {
    const PcbId last =
        queue_.last_of_first([&](const Slot& slot) { return slot.first.is_before(sent_end_); });
    const PcbId first = last == SendQueue::kEnd ? queue_.oldest() : queue_.next(last);
    if (first == SendQueue::kEnd) return;
    const Slot& slot = queue_[first];
    queued_end_ = slot.first;
    queued_sequence_ = slot.sequence;
    withdrawn_ = {true, slot.request.fence, slot.request.kind, false};
    if (!next_psn_.is_before(queued_end_)) next_ = SendQueue::kEnd;
    queue_.cut_behind(last, visit);
  }
  /// Forgets all requests and calls visit(pcb) for each, oldest first. They may be started
  /// again, the same in the same order: they have the PSNs that they had, and the oldest goes on
  /// behind the packets of it that the peer has taken (all but the last of a write with immediate
  /// data). What the peer has executed and not acknowledged it takes for repeated. REQUIRES:
  /// is_held().
  template <class Visit>
  void withdraw(Visit&& visit) {
    begin_withdrawal();
    while (!queue_.empty()) visit(queue_.pop());
    next_ = SendQueue::kEnd;
  }
  /// As withdraw(), whatever has happened of the requests; reset() follows.
  template <class Visit>
  void abandon(Visit&& visit) {
    while (!queue_.empty()) visit(queue_.pop());
  }
  /// When expire() wants to be called; kNever when no timer runs.
  Time deadline() const {
    if (failed_) return kNever;
    if (is_held()) return timer_.deadline();
    // What was withdrawn is waited for again when it has been sent again.
    if (queue_.empty()) return withdrawn_.any ? pause_.until() : kNever;
    // With nothing under way no answer is awaited; transmit() says that it could go on.
    if (in_flight() == 0 && pause_.runs()) return pause_.until();
    if (in_flight() == 0 && timer_.goes_later()) return kNever;
    return std::min(timer_.deadline(), pause_.until());
  }
  /// In packets, of which a read counts those of its response. None outstanding: it is idle.
  SendProgress progress() const;
  /// Completes everything with kFlushed: the queue pair is in the error state. The requester stays
  /// silent until reset(); requests started meanwhile wait for the next flush().
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
  void advance(const RequesterUpcalls& up, std::uint32_t packets, Time now);
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
  PcbId next_ = SendQueue::kEnd;  ///< the request the cursor is in; kEnd: all are sent
  Psn next_psn_;                  ///< what is sent next
  Psn unacked_;                   ///< oldest PSN not acknowledged; lies in the oldest request
  Psn sent_end_;                  ///< one beyond the highest PSN ever sent or asked for
  Psn queued_end_;                ///< one beyond the last PSN of the newest request
  Psn queued_sequence_;           ///< SSN of the next request to be started

  FlightWindow flight_;
  RoundTrip round_trip_;
  EndToEndCredits credits_;
  RetryTimer timer_;
  Pause pause_;

  std::uint16_t unasked_ = 0;          ///< packets sent since one asked for an acknowledgement
  std::uint16_t reads_in_flight_ = 0;  ///< reads and atomics between unacked_ and the cursor
  Psn acknowledged_;                   ///< all before it are, also of what was withdrawn
  SelectiveRepeat repeat_;
  Silence silence_;
  bool response_missed_ = false;  ///< went back for a skipped response, no progress since
  bool exhausted_ = false;        ///< there is no retry left for what was withdrawn
  bool failed_ = false;           ///< nothing goes or comes until reset()
  bool moved_ = false;            ///< something was sent, in the last transmit()
  /// The first that withdraw_unsent() took, until one is started.
  struct {
    bool any = false;
    bool fence = false;
    RequestKind kind = RequestKind::kSend;
    bool awaits_response = false;  ///< of withdraw(): the oldest is a read or atomic
  } withdrawn_;

  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_retries_left_ = 0;
};

}  // namespace softhca::transport
