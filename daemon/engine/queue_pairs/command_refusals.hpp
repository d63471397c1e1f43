// SPDX-License-Identifier: Apache-2.0

// Explains why commands fail: which check of a command, or at its peer, and the numbers on both
// sides. If the peer is in this daemon, the explanation has what the peer knows, but only if both
// queue pairs are of one tenant.
#pragma once

#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/diagnostics/qp_history.hpp"
#include "daemon/engine/memory/memory_access.hpp"
#include "daemon/engine/records/qp_table.hpp"

namespace softhca::engine {

class CommandRefusals {
 public:
  CommandRefusals(const QpTable& queue_pairs, const LocalAddresses& addresses, MemoryAccess& memory,
                  const QpHistory& history)
      : queue_pairs_(queue_pairs), addresses_(addresses), memory_(memory), history_(history) {}

  /// Explains the verdict about a command. REQUIRES: the verdict is of the current step.
  Refusal explain(const QueuePair& qp, const collect::Pcb& command, Verdict verdict) const;

 private:
  Refusal find_cause(const QueuePair& qp, const collect::Pcb& command, Verdict verdict) const;
  Refusal explain_entries(const QueuePair& qp, const collect::Pcb& command) const;
  Refusal explain_peer(const QueuePair& qp, Verdict verdict) const;
  Refusal explain_silence(const QueuePair& qp) const;
  void explain_absence(const QueuePair& qp, Refusal& out) const;

  const QpTable& queue_pairs_;
  const LocalAddresses& addresses_;
  MemoryAccess& memory_;
  const QpHistory& history_;
};

}  // namespace softhca::engine
