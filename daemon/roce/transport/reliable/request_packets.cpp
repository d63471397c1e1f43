// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/request_packets.hpp"

#include <cstring>

namespace softhca::transport {

wire::Headers make_request(const RequestFormat& format, const RequestSlot& slot,
                           std::uint32_t index, std::uint32_t end) {
  const Request& r = slot.request;
  wire::Headers h;
  h.destination = format.attributes.destination;
  h.pkey = format.attributes.pkey;
  h.psn = slot.first + index;
  if (awaits_response(r.kind))
    fill_read_or_atomic(h, r, slot.packets, index, end, format.mtu_shift());
  else
    fill_segment(h, r, index, slot.packets);
  if (format.attributes.xrc) {
    h.opcode |= wire::kXrcBits;
    h.xrc_srq = r.xrc_srq;
  }
  return h;
}

/// First and middle responses are not distinguished: after a retry, an old and a new sequence of
/// responses may be in flight, and only one of them starts here.
bool is_response_to(const RequestFormat& format, const RequestSlot& slot, const ResponsePacket& p,
                    Psn parts_end) {
  const RequestKind kind = slot.request.kind;
  const bool has_aeth = p.mask.has_all(wire::kAeth);
  if (has_aeth && !is_ack(p.h.syndrome)) return false;
  if (p.mask.has_all(wire::kAtomic)) return is_atomic(kind);
  if (kind != RequestKind::kRead && !awaits_empty_response(kind)) return false;
  const std::uint32_t length = stores_response(kind) ? slot.request.length : 0;
  const std::uint32_t index = slot.index_of(p.h.psn);
  const bool last = index + 1 == read_part_end(slot.packets, index);
  if (p.mask.has_all(wire::kEnd) != last && (last || !p.h.psn.is_before(parts_end))) return false;
  return p.payload.size() == bytes_of(length, index, format.mtu_shift());
}

Verdict store_response(const RequestFormat& format, LocalMemory& memory, const RequestSlot& slot,
                       const ResponsePacket& p) {
  const PcbId pcb = slot.request.pcb;
  if (is_atomic(slot.request.kind)) {
    std::byte original[sizeof p.h.original];
    std::memcpy(original, &p.h.original, sizeof original);
    return memory.store_response(pcb, 0, original);
  }
  if (p.payload.empty()) return Verdict::kOk;
  return memory.store_response(pcb, slot.index_of(p.h.psn) << format.mtu_shift(), p.payload);
}

}  // namespace softhca::transport
