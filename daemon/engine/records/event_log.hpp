// SPDX-License-Identifier: Apache-2.0

// The latest events of the daemon, for the operator (mechanism D4). Belongs to the engine's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/engine/records/qp_event.hpp"
#include "daemon/engine/records/step_clock.hpp"

namespace softhca::engine {

enum class DaemonEventKind : std::uint8_t {
  kSrqSoftLimit,          ///< a queue pair went over its soft limit; amount: buffers it holds
  kSrqHardLimit,          ///< a queue pair was refused a buffer; amount: buffers it holds
  kSrqConnectionDropped,  ///< amount: buffers it holds
  kSrqQuarantined,        ///< its quarantine begins; amount: buffers it holds
  kSrqQuarantineOver,     ///< amount: buffers it holds
  kSrqWatermark,          ///< a queue fell to its low watermark; amount: buffers left, of: lacking
  kSrqLimitReached,       ///< likewise, below the limit that its program armed
  kSrqOffender,       ///< after these, highest draw first; amount: buffers it holds, of: its limit
  kSrqDrawer,         ///< likewise without accounts; amount: its draws, of: the latest of all
  kSrqRunaway,        ///< it drew most of a queue that is nearly empty; as kSrqDrawer
  kQueuePairError,    ///< it entered the error state; cause: why
  kHostileMemory,     ///< words that no correct provider writes; cause: where
  kGuaranteeNotKept,  ///< amount: for how many ms; cause: which one, and why
  kForgedPackets,     ///< no tenant; amount: refused within a second; peer, cause: of the last one
};

const char* name_of(DaemonEventKind kind);

struct DaemonEvent {
  std::uint64_t sequence = 0;  ///< counts from 0
  Time time{};
  DaemonEventKind kind{};
  TenantId tenant;
  std::uint32_t process = 0;
  std::uint32_t srq = 0;  ///< SharedReceiveQueue::number
  Qpn qpn;                ///< 0: the event is about the queue as a whole
  std::uint32_t amount = 0;
  std::uint32_t of = 0;
  Gid peer;  ///< zero: none, or it does not matter
  Qpn peer_qpn;
  const char* cause = "";  ///< static text
};

class EventLog {
 public:
  static constexpr std::size_t kKept = 256;

  explicit EventLog(const StepClock& clock) : clock_(clock) {}

  /// Adds an event; sets its time and sequence.
  void add(DaemonEvent event, const QpPast& past = {}) {
    event.time = clock_.now;
    event.sequence = count_++;
    events_[event.sequence % kKept] = event;
    pasts_[event.sequence % kKept] = past;
  }
  /// Returns the number of events so far. The latest kKept of them are there.
  std::uint64_t count() const { return count_; }
  std::uint64_t oldest() const { return count_ > kKept ? count_ - kKept : 0; }
  /// REQUIRES: oldest() <= sequence < count().
  const DaemonEvent& operator[](std::uint64_t sequence) const { return events_[sequence % kKept]; }
  /// Returns the history of a queue pair before it failed, for the event of that. REQUIRES:
  /// likewise.
  const QpPast& past(std::uint64_t sequence) const { return pasts_[sequence % kKept]; }

 private:
  const StepClock& clock_;
  std::array<DaemonEvent, kKept> events_{};
  std::vector<QpPast> pasts_{kKept};
  std::uint64_t count_ = 0;
};

}  // namespace softhca::engine
