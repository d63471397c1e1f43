// SPDX-License-Identifier: Apache-2.0

// Responder: packets that were executed already (InfiniBand specification, volume 1, 9.7.5.1.4,
// table 47 "duplicate request").
#include "daemon/roce/transport/reliable/responder.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::transport {

/// Acknowledges a send or write again, executes a read again, and answers an atomic from its
/// recorded result. Drops what cannot be replayed: the peer had its answer, or the request is out
/// of turn.
void Responder::receive_duplicate(const ResponderUpcalls& up, const RequestPacket& p) {
  up.events.count(Count::kDuplicateRequests);
  if (p.mask.has_all(wire::kRead)) return replay_read(p.h);
  if (p.mask.has_any(wire::kAnswered)) return replay_atomic(p);
  ack_due_ = true;
}

/// Handles a duplicate read. It may start at any packet of the original, with the address advanced.
void Responder::replay_read(const wire::Headers& h) {
  Replay* const r = replays_.find(h.psn);
  if (r == nullptr || r->atomic || r->empty) return;
  const std::uint32_t index = (h.psn - r->first.value()).value();
  const std::uint32_t offset = index << mtu_shift_;
  if (h.rkey != r->rkey || h.remote_addr != r->addr + offset || h.xrc_srq != r->xrc_srq) return;
  if (h.dma_length > r->length - offset || (h.dma_length == 0 && r->length != 0)) return;
  const std::uint32_t end = index + packets_of(h.dma_length, mtu_shift_);
  if (r->due) asked_again_ = true;
  if (r->due && end < r->end && offset + h.dma_length == end << mtu_shift_)
    return replays_.owe_part(*r, index, end);
  // A request for the response that is next anyway does not begin a message.
  if (!r->due || index != r->next) r->begun = false;
  r->begin_again();
  r->answer_length = offset + h.dma_length;
  r->rest = {};
  replays_.owe(*r, index, end);
}

void Responder::replay_atomic(const RequestPacket& p) {
  Replay* const r = replays_.find(p.h.psn);
  if (r == nullptr || !(p.mask.has_all(wire::kAtomic) ? r->atomic : r->empty)) return;
  r->begin_again();
  replays_.owe(*r, 0, 1);
}

}  // namespace softhca::transport
