// Responder: packets that were executed before (InfiniBand specification, volume 1, 9.7.5.1.4,
// table 47 "duplicate request").
#include "daemon/transport/responder.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::transport {

/// A send or write is acknowledged again, a read executed again, an atomic answered from memory.
/// What cannot be replayed is dropped: the peer had its answer, or asks out of turn.
void Responder::receive_duplicate(const ResponderUpcalls& up, const RequestPacket& p) {
  up.events.count(Count::kDuplicateRequests);
  if (p.mask.has_all(wire::kRead)) return replay_read(p.h);
  if (p.mask.has_any(wire::kAnswered)) return replay_atomic(p);
  ack_due_ = true;
}

/// A read is asked for again from any of its packets on, with the address moved along.
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
  // Who asks for what comes next anyway begins no message.
  if (!r->due || index != r->next) r->begun = false;
  r->replay = true;
  r->answer_length = offset + h.dma_length;
  r->rest = {};
  replays_.owe(*r, index, end);
}

void Responder::replay_atomic(const RequestPacket& p) {
  Replay* const r = replays_.find(p.h.psn);
  if (r == nullptr || !(p.mask.has_all(wire::kAtomic) ? r->atomic : r->empty)) return;
  r->replay = true;
  replays_.owe(*r, 0, 1);
}

}  // namespace softhca::transport
