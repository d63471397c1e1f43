// SPDX-License-Identifier: Apache-2.0

// Responder: execution of request packets (InfiniBand specification, volume 1, 9.4 and 9.7.4.1).
#include <cstring>

#include "daemon/roce/transport/flush.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::transport {
namespace {

/// Fills in the replay of a request with one response.
void describe(const RequestPacket& p, Replay& r) {
  r.first = p.h.psn;
  r.packets = 1;
  r.rkey = p.h.rkey;
  r.addr = p.h.remote_addr;
  r.xrc_srq = p.h.xrc_srq;
}

/// Returns the verdict for the peer: one cause for every memory error of this side.
Verdict memory_verdict(Verdict verdict) {
  return verdict == Verdict::kBusy ? verdict : Verdict::kRemoteAccess;
}

/// Like Replays::remember(), but a packet that has begun already has its place.
Replay* remember_atomic(Replays& replays, bool resumes) {
  return resumes && !replays.empty() ? &replays.youngest() : replays.remember();
}

/// Refuses a request that needs one more place for its response.
Verdict refuse_read(const ResponderUpcalls& up, const Replays& replays) {
  up.events.explain(RefusalCause::kTooManyReads, 0, replays.limit());
  return Verdict::kRemoteInvalidRequest;
}

/// Flushes nothing: this processor has executed all earlier requests with its own stores, so their
/// data is already globally visible.
Verdict execute_flush(const ResponderUpcalls& up, Replays& replays, const RequestPacket& p) {
  const Verdict checked =
      check_flush(up.memory, {p.h.flush, p.h.rkey, p.h.remote_addr, p.h.dma_length});
  if (checked != Verdict::kOk) return checked;
  Replay* const r = replays.remember();
  if (r == nullptr) return refuse_read(up, replays);
  describe(p, *r);
  r->empty = true;
  replays.owe(*r, 0, 1);
  return Verdict::kOk;
}

}  // namespace

/// Executes a packet. After kReceiverNotReady nothing has changed, and the packet comes again.
/// After kBusy it also comes again, but has begun (`resumes_`): its receive is drawn, and its
/// message is in progress.
Verdict Responder::execute(const ResponderUpcalls& up, const RequestPacket& p) {
  if (p.mask.has_all(wire::kSend)) return execute_send(up, p);
  if (p.mask.has_all(wire::kWrite)) return execute_write(up, p);
  if (p.mask.has_all(wire::kRead)) return execute_read(up, p);
  if (p.mask.has_all(wire::kAtomicWrite)) return execute_atomic_write(up, p);
  if (p.mask.has_all(wire::kFlush)) return execute_flush(up, replays_, p);
  return execute_atomic(up, p);
}

Verdict Responder::execute_send(const ResponderUpcalls& up, const RequestPacket& p) {
  if (p.starts() && !resumes_) {
    if (!message_.draw(up.receives)) return up.receives.refusal();
    message_.begin_send();
  }
  if (!message_.has_room(p.payload.size())) {
    message_.explain_no_room(up.events, p.payload.size());
    refuse(up, Verdict::kRemoteInvalidRequest, Verdict::kLocalLength);
    return Verdict::kRemoteInvalidRequest;
  }
  const Verdict stored = message_.store(up.receives, p.payload);
  if (stored == Verdict::kBusy) return stored;
  if (stored != Verdict::kOk) {
    // An error of the local consumer: it is notified of the cause, the peer only of a failure
    // (9.9.3).
    refuse(up, Verdict::kRemoteOperation, stored);
    return Verdict::kRemoteOperation;
  }
  if (!p.ends()) return Verdict::kOk;
  const bool invalidates = p.mask.has_all(wire::kIeth);
  if (invalidates && up.memory.invalidate_key(p.h.invalidate) != Verdict::kOk)
    return Verdict::kRemoteAccess;
  message_.complete_receive(up.receives, p);
  return Verdict::kOk;
}

Verdict Responder::execute_write(const ResponderUpcalls& up, const RequestPacket& p) {
  // The last packet of a write with immediate draws the receive; if there is none, it is not
  // executed.
  const bool draws = p.mask.has_all(wire::kImmDt);
  // 9.7.4.1.5: the whole range is checked before the first byte is written. write_remote() checks
  // it where one packet is the whole message.
  const bool is_whole = p.starts() && p.ends() && !draws;
  if (p.starts() && !is_whole &&
      up.memory.check_remote(p.h.rkey, p.h.remote_addr, p.h.dma_length, RemoteAccess::kWrite) !=
          Verdict::kOk)
    return Verdict::kRemoteAccess;
  if (draws && !message_.draw(up.receives)) return up.receives.refusal();
  if (p.starts() && !resumes_) message_.begin_write(p.h);
  const Verdict written = message_.write(up.memory, p.payload);
  if (written != Verdict::kOk) return memory_verdict(written);
  if (draws) message_.complete_receive(up.receives, p);
  return Verdict::kOk;
}

/// Checks the read; its data is fetched when the responses are sent.
Verdict Responder::execute_read(const ResponderUpcalls& up, const RequestPacket& p) {
  if (up.memory.check_remote(p.h.rkey, p.h.remote_addr, p.h.dma_length, RemoteAccess::kRead) !=
      Verdict::kOk)
    return Verdict::kRemoteAccess;
  Replay* const r = replays_.remember();
  if (r == nullptr) return refuse_read(up, replays_);
  r->first = p.h.psn;
  r->packets = packets_of(p.h.dma_length, mtu_shift_);
  r->rkey = p.h.rkey;
  r->addr = p.h.remote_addr;
  r->xrc_srq = p.h.xrc_srq;
  r->length = r->answer_length = p.h.dma_length;
  r->rest = {};
  replays_.owe(*r, 0, r->packets);
  return Verdict::kOk;
}

/// Executes an atomic at once and records its result: it must never be executed twice (9.4.5).
Verdict Responder::execute_atomic(const ResponderUpcalls& up, const RequestPacket& p) {
  if (up.memory.check_remote(p.h.rkey, p.h.remote_addr, sizeof(std::uint64_t),
                             RemoteAccess::kAtomic) != Verdict::kOk)
    return Verdict::kRemoteAccess;
  Replay* const r = remember_atomic(replays_, resumes_);
  if (r == nullptr) return refuse_read(up, replays_);
  describe(p, *r);
  r->atomic = true;
  const bool swaps = wire::does(p.h.opcode, wire::Opcode::kRcCompareSwap);
  const AtomicLog log{r->step, r->state};
  const Verdict done =
      swaps ? up.memory.atomic_remote(p.h.rkey, p.h.remote_addr, RequestKind::kCompareSwap,
                                      p.h.compare, p.h.swap_add, log)
            : up.memory.atomic_remote(p.h.rkey, p.h.remote_addr, RequestKind::kFetchAdd,
                                      p.h.swap_add, 0, log);
  if (done != Verdict::kOk) return memory_verdict(done);
  replays_.owe(*r, 0, 1);
  return Verdict::kOk;
}

/// Executes an atomic write and records it like an atomic (annex A19).
Verdict Responder::execute_atomic_write(const ResponderUpcalls& up, const RequestPacket& p) {
  std::uint64_t value = 0;
  std::memcpy(&value, p.payload.data(), sizeof value);
  if (up.memory.check_remote(p.h.rkey, p.h.remote_addr, sizeof value, RemoteAccess::kWrite) !=
      Verdict::kOk)
    return Verdict::kRemoteAccess;
  Replay* const r = remember_atomic(replays_, resumes_);
  if (r == nullptr) return refuse_read(up, replays_);
  describe(p, *r);
  r->empty = true;
  const Verdict done = up.memory.atomic_remote(p.h.rkey, p.h.remote_addr, RequestKind::kAtomicWrite,
                                               0, value, {r->step, r->state});
  if (done != Verdict::kOk) return memory_verdict(done);
  replays_.owe(*r, 0, 1);
  return Verdict::kOk;
}

}  // namespace softhca::transport
