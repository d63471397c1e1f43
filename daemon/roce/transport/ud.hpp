// SPDX-License-Identifier: Apache-2.0

// Unreliable datagrams (InfiniBand specification, volume 1, 9.8.3): one packet is one message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/position.hpp"
#include "daemon/roce/transport/send_progress.hpp"
#include "daemon/roce/transport/send_queue.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"

namespace softhca::transport {

class UdRequester {
 public:
  void configure(const UdAttributes& attributes) { attributes_ = attributes; }
  void reset(Psn sq_psn) { next_psn_ = sq_psn; }
  Psn next_psn() const { return next_psn_; }

  /// Sends the packet of `request` and completes the request. The engine has set the address path
  /// for up.packets.send(). Returns kBusy if the port is full: nothing has happened, call again at
  /// the next poll step. Otherwise the request was completed with the returned verdict and, unless
  /// that is kOk, enter_error() was called.
  Verdict transmit(const SenderUpcalls& up, const Request& request, Qpn remote,
                   std::uint32_t remote_qkey);
  /// Sends that packet. The caller completes the request with the returned verdict.
  Verdict send(const SenderUpcalls& up, const Request& request, Qpn remote,
               std::uint32_t remote_qkey);

 private:
  UdAttributes attributes_;
  Psn next_psn_;
};

class UdResponder {
 public:
  void configure(const UdAttributes& attributes) { attributes_ = attributes; }
  /// Drops a drawn receive without completing it.
  void reset();
  /// Handles a datagram. Receives for UD have kRoutingHeaderBytes more than the message.
  void receive(const DatagramReceiverUpcalls& up, const wire::Headers& h,
               std::span<const std::byte> payload);
  /// Completes a drawn receive with kFlushed. Then it receives nothing until reset().
  void flush(const DatagramReceiverUpcalls& up);

 private:
  bool draw(const DatagramReceiverUpcalls& up);

  UdAttributes attributes_;
  /// A receive of `capacity_` bytes is drawn. It was too small for a message and is used for the
  /// next.
  bool drawn_ = false;
  std::uint64_t capacity_ = 0;
  bool failed_ = false;
};

/// Both ends, and the datagrams that are not sent yet. Each datagram has its own destination: the
/// wire, this daemon, or a multicast group.
class Ud {
 public:
  void open(RequestTable& table, std::uint32_t requests) { queue_.open(table, requests); }
  void configure(const UdAttributes& attributes) {
    requester_.configure(attributes);
    responder_.configure(attributes);
  }
  void reset() {
    queue_.clear();
    reset_sender(Psn());
    responder_.reset();
  }
  void reset_sender(Psn sq_psn) { requester_.reset(sq_psn); }
  void reset_receiver(Psn) { responder_.reset(); }
  SentPosition sent() const { return {requester_.next_psn()}; }
  /// Datagrams have no order.
  TakenPosition taken() const { return {}; }

  void start(const Request& request) { queue_.push(request); }
  /// Calls send(request) for one request after the other while goes_on() returns true. send()
  /// completes the request, or returns false: nothing has happened, try the same request in the
  /// next poll step. Returns true if it could continue right away.
  template <class GoesOn, class Send>
  bool transmit(GoesOn&& goes_on, Send&& send) {
    for (unsigned i = 0; i < kDatagramsPerTurn; ++i) {
      if (queue_.empty()) return false;
      if (!goes_on()) break;
      const Request request = queue_.front();
      queue_.pop();
      if (send(request)) continue;
      queue_.push_front(request.pcb);
      return true;
    }
    return !queue_.empty();
  }
  UdRequester& requester() { return requester_; }
  bool receive(const UdUpcalls& up, const wire::Headers& h, std::span<const std::byte> payload,
               Time) {
    responder_.receive(up.receiver, h, payload);
    return false;
  }
  void expire(const UdUpcalls&, Time) {}
  void flush(const UdUpcalls& up) {
    while (!queue_.empty()) up.commands.complete_request(queue_.pop(), Verdict::kFlushed);
    responder_.flush(up.receiver);
  }
  bool is_held() const { return false; }
  template <class Visit>
  void withdraw_unsent(Visit&& visit) {
    abandon(visit);
  }
  SendProgress progress() const { return {.unsent = queue_.size(), .outstanding = queue_.size()}; }
  Time deadline() const { return kNever; }
  template <class Visit>
  void withdraw(Visit&& visit) {
    abandon(visit);
  }
  template <class Visit>
  void abandon(Visit&& visit) {
    while (!queue_.empty()) visit(queue_.pop());
  }

 private:
  static constexpr unsigned kDatagramsPerTurn = 32;

  SendQueue queue_;
  UdRequester requester_;
  UdResponder responder_;
};

}  // namespace softhca::transport
