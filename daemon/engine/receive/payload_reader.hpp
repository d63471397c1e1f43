// SPDX-License-Identifier: Apache-2.0

// Reads the payload of outgoing packets, which a transport names as part of a command of the queue
// pair or as memory that a peer reads.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "daemon/engine/memory/memory_access.hpp"
#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"

namespace softhca::engine {

/// Where payload lies in memory that the daemon has mapped.
struct PayloadPieces {
  std::array<iovec, memory::kMaxEntries> entries;
  std::size_t count = 0;
  std::span<const iovec> view() const { return {entries.data(), count}; }
};

class PayloadReader {
 public:
  PayloadReader(collect::PcbPool& pcbs, MemoryAccess& memory, const ReceiveQueues& receives)
      : pcbs_(pcbs), memory_(memory), receives_(receives) {}

  /// Fills `out`, which has the length of the payload. `qp`: the queue pair that has the payload;
  /// null: it is the engine's own. Errors: kLocalProtection, kRemoteAccess. kBusy: within a
  /// MemoryWaits::Step, read it again later.
  Verdict read(const QueuePair* qp, const transport::PayloadSource& payload,
               std::span<std::byte> out);
  /// Sets `out` to where the payload lies, or to no pieces if the payload must be read with read().
  /// The pieces stay valid for this poll step. Errors as read(). REQUIRES: the payload is not
  /// empty.
  Verdict locate(const QueuePair& qp, const transport::PayloadSource& payload, PayloadPieces& out);
  /// Begins a packet.
  void begin() { is_busy_ = false; }
  /// True if a read() for this packet ended with kBusy.
  bool is_busy() const { return is_busy_; }

 private:
  Verdict fetch(const QueuePair* qp, const transport::PayloadSource& payload,
                std::span<std::byte> out);
  RegionPlace remote(const QueuePair& qp, const transport::PayloadSource& payload);

  collect::PcbPool& pcbs_;
  MemoryAccess& memory_;
  const ReceiveQueues& receives_;
  bool is_busy_ = false;
};

}  // namespace softhca::engine
