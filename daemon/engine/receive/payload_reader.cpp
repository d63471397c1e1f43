// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/receive/payload_reader.hpp"

#include <cstring>

namespace softhca::engine {

using From = transport::PayloadSource::From;

/// Returns the memory that the peer named. Null: the peer may not read there.
RegionPlace PayloadReader::remote(const QueuePair& qp, const transport::PayloadSource& payload) {
  memory::PdId pd = qp.pd;
  if (qp.type == QpType::kXrcReceive) {
    const SharedReceiveQueue* srq = receives_.find_xrc(qp, payload.xrc_srq);
    if (srq == nullptr) return {};
    pd = srq->pd;
  }
  return memory_.remote(qp, pd, payload.rkey, payload.addr, payload.length,
                        transport::RemoteAccess::kRead);
}

Verdict PayloadReader::read(const QueuePair* qp, const transport::PayloadSource& payload,
                            std::span<std::byte> out) {
  const Verdict done = fetch(qp, payload, out);
  is_busy_ = done == Verdict::kBusy;
  return done;
}

Verdict PayloadReader::fetch(const QueuePair* qp, const transport::PayloadSource& payload,
                             std::span<std::byte> out) {
  if (payload.from == From::kRequest)
    return memory_.gather(*qp, pcbs_.pcb(payload.pcb), payload.offset, out);
  if (payload.from == From::kOwn) {
    std::memcpy(out.data(), payload.own, out.size());
    return Verdict::kOk;
  }
  const RegionPlace place = remote(*qp, payload);
  if (place.region == nullptr) return Verdict::kRemoteAccess;
  return memory::read(*place.region, place.offset, out);
}

Verdict PayloadReader::locate(const QueuePair& qp, const transport::PayloadSource& payload,
                              PayloadPieces& out) {
  memory::keep_order();
  memory::ScatterList list;
  if (payload.from == From::kRequest) {
    const collect::Pcb& pcb = pcbs_.pcb(payload.pcb);
    if (collect::is_inline(pcb)) return Verdict::kOk;
    const Verdict found = memory_.resolve_message(qp, pcb, payload.offset, payload.length, list);
    if (found != Verdict::kOk) return found;
  } else {
    const RegionPlace place = remote(qp, payload);
    if (place.region == nullptr) return Verdict::kRemoteAccess;
    list.entries[list.count++] = {place.region, place.offset, payload.length};
  }
  for (const memory::ScatterEntry& entry : list.view()) {
    std::byte* at = entry.direct(0, entry.length);
    if (at == nullptr) {
      out.count = 0;
      return Verdict::kOk;
    }
    out.entries[out.count++] = {at, entry.length};
  }
  return Verdict::kOk;
}

}  // namespace softhca::engine
