// How far the requests of a queue pair are, for those who want to know what they wait for.
#pragma once

#include <cstdint>

#include "daemon/transport/send_queue.hpp"

namespace softhca::transport {

/// What keeps the next packet of a queue pair from being sent.
enum class SendObstacle : std::uint8_t {
  kNone,    ///< nothing here: it goes as soon as the queue pair has its turn and the port takes it
  kWindow,  ///< so much is under way that an acknowledgement must come first
  kPace,    ///< the window is less than a packet: the next one waits for the end of a pause
  kOrder,   ///< a fence, or the limit of reads and atomics under way
  kReceiver,  ///< the peer has no receive
  kPeer,      ///< the peer does not answer, or is not there
  kPeerRate,  ///< the rates of what is sent to the peer, or read from it
};

/// `unsent` of `outstanding` parts of the requests have still to be sent. Both 0: there are no
/// requests.
struct SendProgress {
  SendObstacle obstacle = SendObstacle::kNone;
  std::uint32_t unsent = 0;
  std::uint32_t outstanding = 0;
  bool moved = false;  ///< the last transmit() sent something
  /// Of which a part has gone, and another is to be sent; kEnd: none.
  PcbId half_sent = SendQueue::kEnd;
  /// What keeps the request that is to begin next from it, be it here or withdrawn by
  /// withdraw_unsent(); kNone: nothing, or another one is being sent.
  SendObstacle next = SendObstacle::kNone;
};

}  // namespace softhca::transport
