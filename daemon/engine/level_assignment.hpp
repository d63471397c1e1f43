// Which level a queue pair is of: its process's, or the one that its service level or traffic class
// belongs to (mechanism A7). A queue pair comes to a level when it is connected, and stays there
// until it is reset, so that its commands keep their order. Datagram queue pairs, whose messages go
// many ways, and XRC targets, which have no commands, are of their process's level.
#pragma once

#include "daemon/engine/route.hpp"
#include "daemon/engine/tvl_assignment.hpp"

namespace softhca::engine {

/// The level that an address vector belongs to. Rules of the operator go before those of the
/// tenant, traffic classes before service levels. Null: none.
Level* find_level(const Tenant& tenant, const AddressPath& path);

class LevelAssignment {
 public:
  LevelAssignment(CpuScheduler& cpu, collect::PcbPool& pcbs, TvlAssignment& tvls)
      : cpu_(cpu), pcbs_(pcbs), tvls_(tvls) {}

  /// The queue pair comes: it is of its process's level, and takes TVLs there.
  void join(QueuePair& qp);
  void leave(QueuePair& qp) { tvls_.leave(qp); }
  /// Its path is known. REQUIRES: it has no commands, and its send queue is not open.
  void assign(QueuePair& qp);
  /// It is of its process's level again. REQUIRES: as assign().
  void restore(QueuePair& qp);

 private:
  void move(QueuePair& qp, QosClassId to);

  CpuScheduler& cpu_;
  collect::PcbPool& pcbs_;
  TvlAssignment& tvls_;
};

}  // namespace softhca::engine
