// The bytes of outgoing packets, as transports name them: of a command of the queue pair, or of
// memory that a peer reads.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "daemon/collect/pcb_pool.hpp"
#include "daemon/engine/memory_access.hpp"
#include "daemon/engine/receive_queues.hpp"

namespace softhca::engine {

/// Where payload lies in memory that is mapped here.
struct PayloadPieces {
  std::array<iovec, memory::kMaxEntries> entries;
  std::size_t count = 0;
  std::span<const iovec> view() const { return {entries.data(), count}; }
};

class PayloadReader {
 public:
  PayloadReader(collect::PcbPool& pcbs, MemoryAccess& memory, const ReceiveQueues& receives)
      : pcbs_(pcbs), memory_(memory), receives_(receives) {}

  /// Fills `out`, of the payload's length. Errors: kLocalProtection, kRemoteAccess; kBusy: in a
  /// MemoryWaits::Step, it is to be read again later. `qp`: whose payload it is; null: the engine's
  /// own.
  Verdict read(const QueuePair* qp, const transport::PayloadSource& payload,
               std::span<std::byte> out);
  /// Where the payload lies; no pieces: it has to be read. They stay valid for this poll step.
  /// Errors as read(). REQUIRES: not empty.
  Verdict locate(const QueuePair& qp, const transport::PayloadSource& payload, PayloadPieces& out);
  /// A packet begins.
  void begin() { is_busy_ = false; }
  /// A read() of it ended with kBusy.
  bool is_busy() const { return is_busy_; }

 private:
  Verdict fetch(const QueuePair* qp, const transport::PayloadSource& payload,
                std::span<std::byte> out);
  RemoteMemory remote(const QueuePair& qp, const transport::PayloadSource& payload);

  collect::PcbPool& pcbs_;
  MemoryAccess& memory_;
  const ReceiveQueues& receives_;
  bool is_busy_ = false;
};

}  // namespace softhca::engine
