// Unreliable datagrams (InfiniBand specification, volume 1, 9.8.3): one packet is one message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/types.hpp"
#include "daemon/transport/environment.hpp"
#include "daemon/wire/headers.hpp"

namespace softhca::transport {

class UdRequester {
 public:
  void configure(const UdAttributes& attributes) { attributes_ = attributes; }
  void reset(Psn sq_psn) { next_psn_ = sq_psn; }

  /// Sends the one packet of `request` and completes it. The engine has set the address path that
  /// env.send() uses. kBusy: the port is full, nothing happened, call again at the next poll step.
  /// Otherwise the request was completed with the verdict returned, and, unless it is kOk,
  /// enter_error() was called.
  Verdict transmit(Environment& env, const Request& request, Qpn remote, std::uint32_t remote_qkey);
  /// Sends that packet, and leaves it to the caller to complete the request with the verdict.
  Verdict send(Environment& env, const Request& request, Qpn remote, std::uint32_t remote_qkey);

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
  void receive(Environment& env, const wire::Headers& h, std::span<const std::byte> payload);
  /// Completes a drawn receive with kFlushed; deaf until reset().
  void flush(Environment& env);

 private:
  bool draw(Environment& env);

  UdAttributes attributes_;
  bool drawn_ = false;  ///< a receive is ours, of `capacity_` bytes: it was too small for a
                        ///< message, and serves the next
  std::uint64_t capacity_ = 0;
  bool failed_ = false;
};

}  // namespace softhca::transport
