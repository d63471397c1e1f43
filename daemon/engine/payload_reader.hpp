// The bytes of outgoing packets, as transports name them: of a command of the queue pair, or of
// memory that a peer reads.
#pragma once

#include <cstddef>
#include <span>

#include "daemon/collect/pcb_pool.hpp"
#include "daemon/engine/memory_access.hpp"
#include "daemon/engine/receive_queues.hpp"

namespace softhca::engine {

class PayloadReader {
 public:
  PayloadReader(collect::PcbPool& pcbs, MemoryAccess& memory, const ReceiveQueues& receives)
      : pcbs_(pcbs), memory_(memory), receives_(receives) {}

  /// Fills `out`, of the payload's length. Errors: kLocalProtection, kRemoteAccess.
  Verdict read(const QueuePair& qp, const transport::PayloadSource& payload,
               std::span<std::byte> out) {
    if (payload.from == transport::PayloadSource::From::kRequest)
      return memory_.gather(qp, pcbs_.pcb(payload.pcb), payload.offset, out);
    memory::PdId pd = qp.pd;
    if (qp.type == QpType::kXrcReceive) {
      const SharedReceiveQueue* srq = receives_.find_xrc(qp, payload.xrc_srq);
      if (srq == nullptr) return Verdict::kRemoteAccess;
      pd = srq->pd;
    }
    const RemoteMemory place = memory_.remote(qp, pd, payload.rkey, payload.addr, payload.length,
                                              transport::RemoteAccess::kRead);
    if (place.region == nullptr) return Verdict::kRemoteAccess;
    return memory::read(*place.region, place.offset, out);
  }

 private:
  collect::PcbPool& pcbs_;
  MemoryAccess& memory_;
  const ReceiveQueues& receives_;
};

}  // namespace softhca::engine
