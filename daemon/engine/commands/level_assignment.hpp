// SPDX-License-Identifier: Apache-2.0

// Assigns queue pairs to levels: to the level of their process, or to the one that their service
// level or traffic class belongs to (mechanism A7). A queue pair gets its level when it is
// connected and keeps it until it is reset, so that its commands keep their order. Two kinds always
// have the level of their process: datagram queue pairs, since their messages go many ways, and XRC
// targets, since they have no commands.
#pragma once

#include "daemon/engine/commands/tvl_assignment.hpp"
#include "daemon/engine/records/route.hpp"

namespace softhca::engine {

/// Returns the level that an address vector belongs to, or null. Rules of the operator go before
/// those of the tenant, traffic classes before service levels.
Level* find_level(const Tenant& tenant, const AddressPath& path);

class LevelAssignment {
 public:
  LevelAssignment(CpuScheduler& cpu, collect::PcbPool& pcbs, TvlAssignment& tvls)
      : cpu_(cpu), pcbs_(pcbs), tvls_(tvls) {}

  /// Adds a queue pair to the level of its process, where it takes TVLs.
  void join(QueuePair& qp);
  void leave(QueuePair& qp) { tvls_.leave(qp); }
  /// Assigns the level, since the path is known. REQUIRES: the queue pair has no commands, and its
  /// send queue is not open.
  void assign(QueuePair& qp);
  /// Gives the queue pair the level of its process again. REQUIRES: as assign().
  void restore(QueuePair& qp);

 private:
  void move(QueuePair& qp, QosClassId to);

  CpuScheduler& cpu_;
  collect::PcbPool& pcbs_;
  TvlAssignment& tvls_;
};

}  // namespace softhca::engine
