// Unreliable datagrams (InfiniBand specification, volume 1, 9.8.3): one packet is one message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/transport/send_progress.hpp"
#include "daemon/transport/send_queue.hpp"
#include "daemon/transport/upcalls.hpp"
#include "daemon/wire/headers.hpp"

namespace softhca::transport {

class UdRequester {
 public:
  void configure(const UdAttributes& attributes) { attributes_ = attributes; }
  void reset(Psn sq_psn) { next_psn_ = sq_psn; }

  /// Sends the one packet of `request` and completes it. The engine has set the address path that
  /// up.packets.send() uses. kBusy: the port is full, nothing happened, call again at the next poll
  /// step. Otherwise the request was completed with the verdict returned, and, unless it is kOk,
  /// enter_error() was called.
  Verdict transmit(const SenderUpcalls& up, const Request& request, Qpn remote,
                   std::uint32_t remote_qkey);
  /// Sends that packet, and leaves it to the caller to complete the request with the verdict.
  Verdict send(const SenderUpcalls& up, const Request& request, Qpn remote,
               std::uint32_t remote_qkey);

 private:
  UdAttributes attributes_;
  Psn next_psn_;
};

class UdResponder {
 public:
  void configure(const UdAttributes& attributes) { attributes_ = attributes; }
  /// Forgets a drawn receive without completing it.
  void reset();
  /// One datagram. Receives for UD have kRoutingHeaderBytes more than the message.
  void receive(const DatagramReceiverUpcalls& up, const wire::Headers& h,
               std::span<const std::byte> payload);
  /// Completes a drawn receive with kFlushed; deaf until reset().
  void flush(const DatagramReceiverUpcalls& up);

 private:
  bool draw(const DatagramReceiverUpcalls& up);

  UdAttributes attributes_;
  bool drawn_ = false;  ///< a receive is ours, of `capacity_` bytes: it was too small for a
                        ///< message, and serves the next
  std::uint64_t capacity_ = 0;
  bool failed_ = false;
};

/// Both ends, and the datagrams that are yet to go. Each has a way of its own: to the wire, inside
/// the daemon, to a multicast group.
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

  void start(const Request& request) { queue_.push(request); }
  /// Calls send(request) for one after the other, as long as goes_on() says so. send() completes
  /// the request, or returns false: nothing happened, the same is to be tried in the next poll
  /// step. True when it could go on right away.
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
