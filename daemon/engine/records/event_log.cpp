// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/event_log.hpp"

namespace softhca::engine {

const char* name_of(DaemonEventKind kind) {
  switch (kind) {
    case DaemonEventKind::kSrqSoftLimit:
      return "srq_soft_limit";
    case DaemonEventKind::kSrqHardLimit:
      return "srq_hard_limit";
    case DaemonEventKind::kSrqConnectionDropped:
      return "srq_connection_dropped";
    case DaemonEventKind::kSrqQuarantined:
      return "srq_quarantined";
    case DaemonEventKind::kSrqQuarantineOver:
      return "srq_quarantine_over";
    case DaemonEventKind::kSrqWatermark:
      return "srq_watermark";
    case DaemonEventKind::kSrqLimitReached:
      return "srq_limit_reached";
    case DaemonEventKind::kSrqOffender:
      return "srq_offender";
    case DaemonEventKind::kSrqDrawer:
      return "srq_drawer";
    case DaemonEventKind::kSrqRunaway:
      return "srq_runaway";
    case DaemonEventKind::kQueuePairError:
      return "queue_pair_error";
    case DaemonEventKind::kHostileMemory:
      return "hostile_memory";
    case DaemonEventKind::kGuaranteeNotKept:
      return "guarantee_not_kept";
    case DaemonEventKind::kForgedPackets:
      return "forged_packets";
  }
  return "unknown";
}

}  // namespace softhca::engine
