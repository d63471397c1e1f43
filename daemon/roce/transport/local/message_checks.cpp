// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/local/message_checks.hpp"

#include <bit>
#include <cassert>

#include "daemon/roce/transport/flush.hpp"
#include "daemon/roce/transport/uc.hpp"

namespace softhca::transport {

void MessageChecks::configure(const RcAttributes& attributes) {
  assert(std::has_single_bit(attributes.mtu));
  mtu_ = attributes.mtu;
  mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
  first_window_ = attributes.flight.initial_flight;
  max_rd_atomic_ = attributes.max_rd_atomic;
  xrc_ = attributes.xrc;
}

Verdict MessageChecks::check(const LocalPeer& peer, const Request& request,
                             const SendQueue& queue) {
  const bool reads = request.kind == RequestKind::kRead;
  if (is_split_otherwise(peer, request) && !reads) [[unlikely]]
    return refuse_split(peer, request);
  if (xrc_)
    if (const Verdict chosen = peer.memory.choose_receive_queue(request.xrc_srq);
        chosen != Verdict::kOk)
      return chosen;
  const bool exceeds =
      awaits_response(request.kind) && exceeds_reads(peer.max_dest_rd_atomic, queue);
  // Atomics are checked as they run.
  if (is_send(request.kind) || (is_indivisible(request.kind) && !exceeds)) return Verdict::kOk;
  if (const Verdict allowed = check_access(peer, request); allowed != Verdict::kOk) return allowed;
  if (exceeds) {
    peer.events.explain(RefusalCause::kTooManyReads, 0, peer.max_dest_rd_atomic);
    return Verdict::kRemoteInvalidRequest;
  }
  if (reads && is_split_otherwise(peer, request)) [[unlikely]]
    return Verdict::kBadResponse;
  return Verdict::kOk;
}

Verdict MessageChecks::check_access(const LocalPeer& peer, const Request& request) const {
  if (request.kind == RequestKind::kFlush) return check_flush(peer.memory, flush_of(request));
  const bool fetches =
      request.kind == RequestKind::kCompareSwap || request.kind == RequestKind::kFetchAdd;
  const RemoteAccess access = fetches                              ? RemoteAccess::kAtomic
                              : request.kind == RequestKind::kRead ? RemoteAccess::kRead
                                                                   : RemoteAccess::kWrite;
  return peer.memory.check_remote(request.rkey, request.remote_addr, request.length, access);
}

Verdict MessageChecks::refuse_split(const LocalPeer& peer, const Request& request) const {
  peer.events.explain(RefusalCause::kPayloadLength, std::min(request.length, mtu_), peer.mtu);
  peer.events.count(Count::kBadLength);
  return Verdict::kRemoteInvalidRequest;
}

// --- packet sequence numbers

/// If the peer expects an earlier PSN, its NAK names a packet that this end does not have. If it
/// expects a later one, its acknowledgement is of use only after that packet was sent.
bool MessageChecks::misses(const LocalPeer& peer, const SendQueue& queue) const {
  const std::int32_t distance = position_.send.distance_from(peer.expected);
  if (distance == 0) return false;
  return distance > 0 || !acknowledges(static_cast<std::uint32_t>(-distance), queue);
}

/// True if this end would have sent so many packets, which the peer takes for duplicates, and it
/// would take the acknowledgement of the last one. Reads and atomics have no answer then.
bool MessageChecks::acknowledges(std::uint32_t duplicates, const SendQueue& queue) const {
  if (awaits_response(queue.front().kind) || duplicates > first_window_) return false;
  std::uint32_t sent = 0;
  for (PcbId pcb = queue.oldest(); pcb != SendQueue::kEnd && sent < duplicates;
       pcb = queue.next(pcb))
    sent += packets(queue[pcb].request);
  return sent >= duplicates;
}

bool MessageChecks::repeats(const LocalPeer& peer, const Request& request) const {
  return !(position_.send + packets(request)).is_after(peer.expected);
}

/// A gap before the message is a loss. A message that comes late is dropped.
bool MessageChecks::is_taken_unreliably(const LocalPeer& peer, const Request& request) const {
  const std::int32_t distance = position_.send.distance_from(peer.expected);
  const bool late = is_late(distance);
  if (!late || !repeats(peer, request)) peer.expected = position_.send + packets(request);
  if (distance != 0) [[unlikely]]
    peer.events.count(late ? Count::kDuplicateRequests : Count::kOutOfSequence);
  return !late;
}

// --- reads and atomics

/// True if the peer refuses the oldest request, a read or atomic, because as many as it takes are
/// unanswered. This end executes them one by one. On the wire it would have sent all that wait and
/// fit the first congestion window, and the one too many would be refused after those before it.
bool MessageChecks::exceeds_reads(std::uint8_t limit, const SendQueue& queue) {
  if (max_rd_atomic_ <= limit) return false;
  if (reads_left_ != kNoLimit) return reads_left_ == 0;
  unsigned sent = 0;
  unsigned reads = 0;
  for (PcbId pcb = queue.oldest(); pcb != SendQueue::kEnd && sent++ < first_window_;
       pcb = queue.next(pcb)) {
    const Request& request = queue[pcb].request;
    if (request.fence && reads != 0) break;
    if (awaits_response(request.kind) && ++reads > limit) {
      reads_left_ = limit;
      break;
    }
  }
  return reads_left_ == 0;
}

}  // namespace softhca::transport
