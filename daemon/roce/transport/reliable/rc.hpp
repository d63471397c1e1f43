// SPDX-License-Identifier: Apache-2.0

// A reliable connection, of RC or XRC: a requester and a responder. An XRC end has only one of
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/roce/transport/reliable/requester.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"

namespace softhca::transport {

class Rc {
 public:
  void open(RequestTable& table, std::uint32_t requests) { requester_.open(table, requests); }
  /// `responds`: it executes requests of its peer.
  void configure(const RcAttributes& attributes, const ResponderStores& stores, bool responds);
  /// Drops everything without completing it.
  void reset();
  /// The next request packet has PSN `sq_psn`.
  void reset_sender(Psn sq_psn) { requester_.reset(sq_psn); }
  /// The next new packet of the peer must have PSN `rq_psn`.
  void reset_receiver(Psn rq_psn) { responder_.reset(rq_psn); }
  WirePosition position() const;
  void resume(const WirePosition& position);
  SentPosition sent() const { return requester_.sent(); }
  TakenPosition taken() const { return responder_.position(); }
  /// Goes on where an earlier engine was. REQUIRES: configured.
  void resume_sender(const SentPosition& position) { requester_.reset(position, true); }
  void resume_receiver(const TakenPosition& position, const ReplayPlaces& places,
                       const RcUpcalls& up) {
    responder_.resume(position, places, up.responder);
  }

  void start(const Request& request) { requester_.start(request); }
  /// Sends what it owes its peer, then requests, up to `packet_budget` packets of each. Returns
  /// true if it could continue right away.
  bool transmit(const RcUpcalls& up, Time now, unsigned packet_budget);
  /// Handles a packet. Returns true if transmit() is to be called.
  bool receive(const RcUpcalls& up, const wire::Headers& h, std::span<const std::byte> payload,
               Time now);
  void expire(const RcUpcalls& up, Time now) { requester_.expire(up.requester, now); }
  void flush(const RcUpcalls& up);
  /// Sends what it owes, as far as the port has room, before the queue pair goes. Returns the last
  /// acknowledgement (Responder::last_acknowledgement()).
  std::optional<wire::Headers> take_leave(const RcUpcalls& up, unsigned packet_budget);

  /// Returns the number of buffered packets of the peer.
  std::uint32_t kept() const { return responder_.kept(); }
  bool is_held() const { return requester_.is_held(); }
  SendProgress progress() const { return requester_.progress(); }
  bool rest_if_silent(bool unreachable) { return requester_.rest_if_silent(unreachable); }
  template <class Visit>
  void withdraw_unsent(Visit&& visit) {
    requester_.withdraw_unsent(visit);
  }
  Time deadline() const { return requester_.deadline(); }
  template <class Visit>
  void withdraw(Visit&& visit) {
    requester_.withdraw(visit);
  }
  template <class Visit>
  void abandon(Visit&& visit) {
    requester_.abandon(visit);
  }

 private:
  Requester requester_;
  Responder responder_;
  bool responds_ = false;
};

}  // namespace softhca::transport
