// SPDX-License-Identifier: Apache-2.0

// Progress of the requests of a queue pair, and what delays them, for figures and diagnosis.
#pragma once

#include <cstdint>

#include "daemon/roce/transport/send_queue.hpp"

namespace softhca::transport {

/// What prevents the next packet of a queue pair from being sent.
enum class SendObstacle : std::uint8_t {
  kNone,      ///< nothing: it goes when the queue pair has its turn and the port has room
  kWindow,    ///< the window is full: an acknowledgement must come first
  kPace,      ///< the window is below one packet: the next one waits for the end of a pause
  kOrder,     ///< a fence, or the limit of reads and atomics in flight
  kReceiver,  ///< the peer has no receive
  kPeer,      ///< the peer does not answer, or does not exist
  kPeerRate,  ///< the limits on the rate of traffic to or from the peer
};

/// `unsent` of the `outstanding` parts of the requests are not sent yet. Both are 0 if there are no
/// requests.
struct SendProgress {
  SendObstacle obstacle = SendObstacle::kNone;
  std::uint32_t unsent = 0;
  std::uint32_t outstanding = 0;
  bool moved = false;  ///< the last transmit() sent something
  /// Request of which a part was sent and another is to be sent; kEnd: none.
  PcbId half_sent = SendQueue::kEnd;
  /// What prevents the next request from starting, whether it is queued here or was withdrawn by
  /// withdraw_unsent(). kNone: nothing, or another request is being sent.
  SendObstacle next = SendObstacle::kNone;
};

}  // namespace softhca::transport
