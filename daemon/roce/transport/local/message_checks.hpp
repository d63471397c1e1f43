// SPDX-License-Identifier: Apache-2.0

// Local delivery: the checks that a responder makes on the first packet of a message, with the same
// results as on the wire.
//
// No packet is made, but both ends count PSNs by the packets that a message would have. So the
// message fits its peer exactly if its packets would.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/roce/transport/local/link.hpp"
#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/transport/send_queue.hpp"

namespace softhca::transport {

class MessageChecks {
 public:
  void configure(const RcAttributes& attributes);
  /// Forgets the requests, not the PSNs.
  void reset() { reads_left_ = kNoLimit; }
  /// PSNs of both directions. The peer moves `receive` on (LocalPeer::expected).
  WirePosition& position() { return position_; }
  const WirePosition& position() const { return position_; }

  /// RC: true if the peer leaves the oldest request unanswered, because it expects another PSN.
  /// REQUIRES: !queue.empty().
  bool misses(const LocalPeer& peer, const SendQueue& queue) const;
  /// RC: true if the peer has executed all packets with the PSNs of the request. REQUIRES:
  /// !misses().
  bool repeats(const LocalPeer& peer, const Request& request) const;
  /// UC: moves the peer behind the message. Returns false if the peer drops it.
  bool is_taken_unreliably(const LocalPeer& peer, const Request& request) const;
  /// Runs the checks that a responder makes before it draws a receive. kBadResponse: the peer
  /// answers a read in packets that this end does not expect. REQUIRES: the request is the oldest.
  Verdict check(const LocalPeer& peer, const Request& request, const SendQueue& queue);
  /// Returns the PSN behind the oldest request.
  Psn behind(const Request& request) const { return position_.send + packets(request); }
  /// Moves this end behind a message that has succeeded.
  void succeeded(const Request& request) {
    position_.send = position_.send + packets(request);
    if (reads_left_ > 0 && awaits_response(request.kind)) [[unlikely]]
      --reads_left_;
  }

 private:
  static constexpr std::int16_t kNoLimit = -1;

  std::uint32_t packets(const Request& request) const {
    return packets_of(request.length, mtu_shift_);
  }
  /// True if the message has several packets at one end of the path: with different path MTUs, a
  /// packet of one end does not fit the other (IBA 9.7.4.1.6).
  bool is_split_otherwise(const LocalPeer& peer, const Request& request) const {
    return mtu_ != peer.mtu && request.length > std::min(mtu_, peer.mtu);
  }
  Verdict check_access(const LocalPeer& peer, const Request& request) const;
  Verdict refuse_split(const LocalPeer& peer, const Request& request) const;
  bool acknowledges(std::uint32_t duplicates, const SendQueue& queue) const;
  bool exceeds_reads(std::uint8_t limit, const SendQueue& queue);

  WirePosition position_;
  std::uint32_t mtu_ = 1024;
  std::uint32_t mtu_shift_ = 10;
  std::uint16_t first_window_ = 0;  ///< packets in flight before the first acknowledgement
  std::uint8_t max_rd_atomic_ = 0;
  bool xrc_ = false;
  /// Reads and atomics that the peer still answers before the one that is one too many for it;
  /// kNoLimit: none is.
  std::int16_t reads_left_ = kNoLimit;
};

}  // namespace softhca::transport
