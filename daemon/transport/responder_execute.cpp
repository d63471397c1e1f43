// Responder: what a request packet does here (InfiniBand specification, volume 1, 9.4 and 9.7.4.1).
#include <cstring>

#include "daemon/transport/responder.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::transport {

/// Nothing has changed when this returns kReceiverNotReady: the packet comes again.
Verdict Responder::execute(const ResponderUpcalls& up, const Packet& p) {
  if (p.mask.has_all(wire::kSend)) return execute_send(up, p);
  if (p.mask.has_all(wire::kWrite)) return execute_write(up, p);
  if (p.mask.has_all(wire::kRead)) return execute_read(up, p);
  if (p.mask.has_all(wire::kAtomicWrite)) return execute_atomic_write(up, p);
  return execute_atomic(up, p);
}

Verdict Responder::execute_send(const ResponderUpcalls& up, const Packet& p) {
  if (p.mask.has_all(wire::kStart)) {
    if (!draw(up)) return Verdict::kReceiverNotReady;
    message_ = Message::kSend;
    offset_ = 0;
  }
  const std::uint64_t end = offset_ + p.payload.size();
  if (end > capacity_ || end > kMaxMessageBytes) {
    end_receive(up, Verdict::kLocalLength);
    return Verdict::kRemoteInvalidRequest;
  }
  if (!p.payload.empty()) {
    const Verdict stored = up.receives.store_receive(offset_, p.payload);
    if (stored != Verdict::kOk) {
      // Our own consumer's fault: it learns the cause, the peer only that it went wrong (9.9.3).
      end_receive(up, stored);
      return Verdict::kRemoteOperation;
    }
  }
  offset_ = end;
  if (!p.mask.has_all(wire::kEnd)) return Verdict::kOk;
  const bool invalidates = p.mask.has_all(wire::kIeth);
  if (invalidates && up.memory.invalidate_key(p.h.invalidate) != Verdict::kOk)
    return Verdict::kRemoteAccess;
  finish_receive(up, p, false);
  return Verdict::kOk;
}

Verdict Responder::execute_write(const ResponderUpcalls& up, const Packet& p) {
  if (p.mask.has_all(wire::kStart)) {
    // 9.7.4.1.5: the whole range is checked before its first byte is written.
    if (up.memory.check_remote(p.h.rkey, p.h.remote_addr, p.h.dma_length, RemoteAccess::kWrite) !=
        Verdict::kOk)
      return Verdict::kRemoteAccess;
    rkey_ = p.h.rkey;
    addr_ = p.h.remote_addr;
    remaining_ = p.h.dma_length;
    offset_ = 0;
  }
  // The last packet of a write with immediate draws the receive; without one it is not executed.
  const bool draws = p.mask.has_all(wire::kImmDt);
  if (draws && !draw(up)) return Verdict::kReceiverNotReady;
  if (!p.payload.empty() &&
      up.memory.write_remote(rkey_, addr_ + offset_, p.payload) != Verdict::kOk)
    return Verdict::kRemoteAccess;
  message_ = Message::kWrite;
  offset_ += p.payload.size();
  remaining_ -= static_cast<std::uint32_t>(p.payload.size());
  if (draws) finish_receive(up, p, true);
  return Verdict::kOk;
}

/// The data is fetched when the responses are sent.
Verdict Responder::execute_read(const ResponderUpcalls& up, const Packet& p) {
  if (up.memory.check_remote(p.h.rkey, p.h.remote_addr, p.h.dma_length, RemoteAccess::kRead) !=
      Verdict::kOk)
    return Verdict::kRemoteAccess;
  Replay* const r = remember();
  if (r == nullptr) return Verdict::kRemoteInvalidRequest;
  r->first = p.h.psn;
  r->packets = packets_of(p.h.dma_length, mtu_shift_);
  r->rkey = p.h.rkey;
  r->addr = p.h.remote_addr;
  r->xrc_srq = p.h.xrc_srq;
  r->length = r->answer_length = p.h.dma_length;
  owe(*r, 0, r->packets);
  return Verdict::kOk;
}

/// Executed at once, and its result kept: it must never be executed twice (9.4.5).
Verdict Responder::execute_atomic(const ResponderUpcalls& up, const Packet& p) {
  if (up.memory.check_remote(p.h.rkey, p.h.remote_addr, sizeof(std::uint64_t),
                             RemoteAccess::kAtomic) != Verdict::kOk)
    return Verdict::kRemoteAccess;
  Replay* const r = remember();
  if (r == nullptr) return Verdict::kRemoteInvalidRequest;
  const bool swaps = wire::does(p.h.opcode, wire::Opcode::kRcCompareSwap);
  const Verdict done =
      swaps ? up.memory.atomic_remote(p.h.rkey, p.h.remote_addr, RequestKind::kCompareSwap,
                                      p.h.compare, p.h.swap_add, r->original)
            : up.memory.atomic_remote(p.h.rkey, p.h.remote_addr, RequestKind::kFetchAdd,
                                      p.h.swap_add, 0, r->original);
  if (done != Verdict::kOk) return Verdict::kRemoteAccess;
  r->atomic = true;
  r->first = p.h.psn;
  r->packets = 1;
  owe(*r, 0, 1);
  return Verdict::kOk;
}

/// Answered as a read of nothing, and remembered as an atomic (annex A19).
Verdict Responder::execute_atomic_write(const ResponderUpcalls& up, const Packet& p) {
  std::uint64_t value = 0;
  std::uint64_t original = 0;
  std::memcpy(&value, p.payload.data(), sizeof value);
  if (up.memory.check_remote(p.h.rkey, p.h.remote_addr, sizeof value, RemoteAccess::kWrite) !=
      Verdict::kOk)
    return Verdict::kRemoteAccess;
  Replay* const r = remember();
  if (r == nullptr) return Verdict::kRemoteInvalidRequest;
  if (up.memory.atomic_remote(p.h.rkey, p.h.remote_addr, RequestKind::kAtomicWrite, 0, value,
                              original) != Verdict::kOk)
    return Verdict::kRemoteAccess;
  r->store = true;
  r->first = p.h.psn;
  r->packets = 1;
  owe(*r, 0, 1);
  return Verdict::kOk;
}

void Responder::finish_receive(const ResponderUpcalls& up, const Packet& p, bool from_write) {
  ReceiveCompletion c;
  c.byte_len = static_cast<std::uint32_t>(offset_);
  c.from_write = from_write;
  c.has_imm = p.mask.has_all(wire::kImmDt);
  c.invalidated = p.mask.has_all(wire::kIeth);
  c.imm = c.invalidated ? p.h.invalidate.value : p.h.imm;
  c.solicited = p.h.solicited;
  drawn_ = false;
  up.receives.complete_receive(c);
}

}  // namespace softhca::transport
