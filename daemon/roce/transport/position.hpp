// SPDX-License-Identifier: Apache-2.0

// Where a queue pair stands on its connection: enough for the next engine to go on.
#pragma once

#include <cstdint>

#include "daemon/base/types.hpp"

namespace softhca::transport {

/// Where the requests stand. The next engine gets the requests that are not complete again, and
/// numbers them as before.
struct SentPosition {
  SentPosition() = default;
  /// Nothing is sent: the next request has this PSN and SSN.
  SentPosition(Psn next, Psn ssn = Psn(1)) : psn(next), sequence(ssn), unacked(next), end(next) {}
  SentPosition(Psn first, Psn ssn, Psn oldest, Psn behind)
      : psn(first), sequence(ssn), unacked(oldest), end(behind) {}

  Psn psn;          ///< of the first packet of the oldest request
  Psn sequence{1};  ///< SSN of that request
  Psn unacked;      ///< RC: oldest PSN that is not acknowledged, in that request
  Psn end;          ///< RC: one beyond the highest PSN that was sent or requested
};

/// The message that a responder is receiving. It has received only full packets of it.
struct PartOfMessage {
  enum class Kind : std::uint8_t { kNone, kSend, kWrite };
  Kind kind = Kind::kNone;
  std::uint32_t received = 0;   ///< bytes
  std::uint32_t remaining = 0;  ///< write: bytes to come
  Rkey rkey;                    ///< write
  std::uint64_t addr = 0;       ///< write: of the whole message
  std::uint32_t xrc_srq = 0;    ///< XRC: number of the destination shared receive queue
};

/// Where the requests of the peer stand.
struct TakenPosition {
  Psn expected;              ///< PSN of the next packet
  Psn sequence;              ///< MSN
  bool established = false;  ///< a packet has been executed
  std::uint8_t refused = 0;  ///< syndrome of the NAK that ends the connection; 0: none
  PartOfMessage message;
};

/// Returns where a transport stands.
template <class Transport>
SentPosition sent_position(const Transport& transport) {
  return transport.sent();
}
template <class Transport>
TakenPosition taken_position(const Transport& transport) {
  return transport.taken();
}

}  // namespace softhca::transport
