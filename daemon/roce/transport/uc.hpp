// SPDX-License-Identifier: Apache-2.0

// Unreliable connection (InfiniBand specification, volume 1, 9.8.2): no acknowledgements. A request
// is complete when its last packet was sent. A message with a gap is dropped completely and
// silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/incoming_message.hpp"
#include "daemon/roce/transport/send_progress.hpp"
#include "daemon/roce/transport/send_queue.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"

namespace softhca::transport {

/// True if a packet this far behind the expected one (negative) is a late or duplicated one, as IP
/// networks deliver them, and must not be executed again. The specification (9.8.2.2.1) has the
/// responder treat any first packet as a new message; beyond 2^16 packets the responder does so.
constexpr bool is_late(std::int32_t distance) { return distance < 0 && distance >= -(1 << 16); }

/// Same calling rules as Requester, without timers and responses.
class UcRequester {
 public:
  /// Like Requester::open().
  void open(RequestTable& table, std::uint32_t requests) { queue_.open(table, requests); }
  void configure(const UcAttributes& attributes);
  void reset(Psn sq_psn);

  Psn next_psn() const { return next_psn_; }

  bool full() const { return queue_.full(); }
  SendProgress progress() const {
    return {.unsent = queue_.size(), .outstanding = queue_.size(), .half_sent = half_sent()};
  }
  bool idle() const { return queue_.empty(); }
  /// Adds a request. Sends and writes are possible; other kinds end with kLocalQpOperation.
  /// REQUIRES: !full().
  void start(const Request& request);
  bool transmit(const SenderUpcalls& up, unsigned packet_budget);
  void flush(const SenderUpcalls& up);
  /// Like Requester::withdraw_unsent().
  template <class Visit>
  void withdraw_unsent(Visit&& visit) {
    queue_.cut_behind(half_sent(), visit);
  }
  /// Like Requester::abandon().
  template <class Visit>
  void abandon(Visit&& visit) {
    while (!queue_.empty()) visit(queue_.pop());
  }

 private:
  bool fail(const SenderUpcalls& up, Verdict verdict);
  PcbId half_sent() const { return index_ != 0 ? queue_.oldest() : SendQueue::kEnd; }

  UcAttributes attributes_;
  std::uint32_t mtu_shift_ = 10;
  SendQueue queue_;
  Psn next_psn_;
  std::uint32_t index_ = 0;  ///< packet of the oldest request that is sent next
  bool failed_ = false;
};

class UcResponder {
 public:
  void configure(const UcAttributes& attributes);
  void reset(Psn rq_psn);
  Psn expected() const { return expected_; }
  /// Returns what has come of a message.
  PartOfMessage part() const { return message_.part(); }
  /// Like reset(), in the middle of a message.
  void resume(const TakenPosition& position, const ReceiverUpcalls& up) {
    reset(position.expected);
    message_.resume(position.message, up.receives);
  }
  void receive(const ReceiverUpcalls& up, const wire::Headers& h,
               std::span<const std::byte> payload);
  /// Completes a drawn receive with kFlushed. Then it receives nothing until reset().
  void flush(const ReceiverUpcalls& up);

 private:
  bool check_psn(const ReceiverUpcalls& up, const RequestPacket& p);
  bool check_sequence(const RequestPacket& p) const;
  bool check_length(const RequestPacket& p) const;
  bool begin(const ReceiverUpcalls& up, const RequestPacket& p);
  void finish_packet(const ReceiverUpcalls& up, const RequestPacket& p);
  bool take(const ReceiverUpcalls& up, const RequestPacket& p, bool begun);
  bool draw(const ReceiverUpcalls& up);
  void finish(const ReceiverUpcalls& up, const RequestPacket& p);
  void fail(const ReceiverUpcalls& up, Verdict verdict);
  bool refuse_access(const ReceiverUpcalls& up);

  UcAttributes attributes_;
  Psn expected_;
  IncomingMessage message_;         ///< the receive of a dropped message is used for the next
  std::uint16_t bad_accesses_ = 0;  ///< since reset()
  bool failed_ = false;
  bool resumes_ = false;  ///< the last packet has begun and comes again: its memory was busy
};

/// Both sides of an unreliable connection.
class Uc {
 public:
  void open(RequestTable& table, std::uint32_t requests) { requester_.open(table, requests); }
  void configure(const UcAttributes& attributes) {
    requester_.configure(attributes);
    responder_.configure(attributes);
  }
  void reset() {
    reset_sender(Psn());
    reset_receiver(Psn());
  }
  void reset_sender(Psn sq_psn) { requester_.reset(sq_psn); }
  void reset_receiver(Psn rq_psn) { responder_.reset(rq_psn); }
  WirePosition position() const {
    return {.send = requester_.next_psn(), .receive = responder_.expected()};
  }
  void resume(const WirePosition& position) {
    reset_sender(position.send);
    reset_receiver(position.receive);
  }
  /// A message that is sent in part begins anew, with the next PSN: the peer drops the part.
  SentPosition sent() const { return {requester_.next_psn()}; }
  TakenPosition taken() const {
    return {.expected = responder_.expected(), .message = responder_.part()};
  }
  void resume_sender(const SentPosition& position) { reset_sender(position.psn); }
  void resume_receiver(const TakenPosition& position, const UcUpcalls& up) {
    responder_.resume(position, up.receiver);
  }

  void start(const Request& request) { requester_.start(request); }
  bool transmit(const UcUpcalls& up, Time, unsigned packet_budget) {
    return requester_.transmit(up.sender, packet_budget);
  }
  /// Handles a packet. Returns false: it owes its peer nothing.
  bool receive(const UcUpcalls& up, const wire::Headers& h, std::span<const std::byte> payload,
               Time) {
    responder_.receive(up.receiver, h, payload);
    return false;
  }
  void expire(const UcUpcalls&, Time) {}
  void flush(const UcUpcalls& up) {
    requester_.flush(up.sender);
    responder_.flush(up.receiver);
  }
  SendProgress progress() const { return requester_.progress(); }
  /// Returns false: its requests never wait for the peer.
  bool is_held() const { return false; }
  template <class Visit>
  void withdraw_unsent(Visit&& visit) {
    requester_.withdraw_unsent(visit);
  }
  Time deadline() const { return kNever; }
  template <class Visit>
  void withdraw(Visit&& visit) {
    requester_.abandon(visit);
  }
  template <class Visit>
  void abandon(Visit&& visit) {
    requester_.abandon(visit);
  }

 private:
  UcRequester requester_;
  UcResponder responder_;
};

}  // namespace softhca::transport
