// SPDX-License-Identifier: Apache-2.0

// The latest events of the daemon, for the operator (mechanism D4). Belongs to the engine's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "daemon/base/net.hpp"
#include "daemon/base/refusal.hpp"
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
  Refusal refusal{};       ///< kQueuePairError: the check that failed, if known
};

class EventLog {
 public:
  static constexpr std::size_t kKept = 512;

  /// Most events of a tenant in a second. The control thread copies the events each second, so no
  /// tenant displaces those of others before.
  static constexpr std::uint32_t kPerSecond = kKept / 4;

  EventLog(const StepClock& clock, std::uint16_t tenants)
      : clock_(clock),
        windows_(tenants + 1u),
        places_(std::make_unique_for_overwrite<std::byte[]>(kKept * sizeof(Place))) {
    static_assert(std::is_trivially_copyable_v<Place>);
  }

  /// Adds an event; sets its time and sequence. Drops it if its tenant has too many.
  void add(DaemonEvent event, const QpPast& past = {}) {
    if (!admits(event.tenant)) return;
    event.time = clock_.now;
    event.sequence = count_++;
    new (&place(event.sequence)) Place{event, past};
  }
  /// Returns the number of events so far. The latest kKept of them are there.
  std::uint64_t count() const { return count_; }
  std::uint64_t oldest() const { return count_ > kKept ? count_ - kKept : 0; }
  /// REQUIRES: oldest() <= sequence < count().
  const DaemonEvent& operator[](std::uint64_t sequence) const { return place(sequence).event; }
  /// Returns the history of a queue pair before it failed, for the event of that. REQUIRES:
  /// likewise.
  const QpPast& past(std::uint64_t sequence) const { return place(sequence).past; }

 private:
  struct Window {
    Time until{};
    std::uint32_t events = 0;
  };

  struct Place {
    DaemonEvent event;
    QpPast past;
  };

  Place& place(std::uint64_t sequence) const {
    return reinterpret_cast<Place*>(places_.get())[sequence % kKept];
  }
  bool admits(TenantId tenant) {
    Window& window = windows_[std::min<std::size_t>(tenant.value, windows_.size() - 1)];
    if (clock_.now >= window.until)
      window = {.until = clock_.now + std::chrono::seconds(1), .events = 0};
    return ++window.events <= kPerSecond;
  }

  const StepClock& clock_;
  std::vector<Window> windows_;  ///< by tenant; the last one: of the daemon itself
  /// Not constructed: that would touch pages that events may never need.
  std::unique_ptr<std::byte[]> places_;
  std::uint64_t count_ = 0;
};

}  // namespace softhca::engine
