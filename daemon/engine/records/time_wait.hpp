// SPDX-License-Identifier: Apache-2.0

// Reliable connections that ended while their peer may not know yet that all it sent has arrived.
//
// A program that exits after its last message destroys its queue pair. If the last acknowledgement
// was lost, the peer would retry without an answer and fail. For some time after its end the
// adapter therefore still acknowledges what the queue pair had executed, and does nothing else.
// This is the TimeWait of a connection (InfiniBand specification, volume 1, 12.9.8.4), used as TCP
// uses its own (RFC 9293, 3.4).
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/engine/records/route.hpp"
#include "daemon/roce/wire/headers.hpp"

namespace softhca::engine {

/// Plain data, which the next engine takes over.
struct TimeWait {
  Qpn qpn;
  TenantId tenant;
  std::uint16_t udp_source_port = 0;
  AddressPath path;
  wire::Headers answer;  ///< acknowledges everything that was executed
  Time until{};

  /// Returns the way of the answer.
  Route route() const { return {.path = path, .udp_source_port = udp_source_port}; }
};
static_assert(std::is_trivially_copyable_v<TimeWait>);
static_assert(sizeof(TimeWait) == 160);

/// The connections that ended last. If all places are in use, the oldest entry is replaced early. A
/// tenant has at most a quarter of the places; beyond that, its own oldest entry is replaced.
class TimeWaitTable {
 public:
  static constexpr std::size_t kPlaces = 256;
  static constexpr std::size_t kPlacesOfTenant = kPlaces / 4;

  /// `memory`: kPlaces entries that are zero, or those of an earlier engine. It outlives the table.
  explicit TimeWaitTable(std::span<TimeWait> memory) : numbers_(kPlaces), entries_(memory) {
    Time latest{};
    for (std::size_t i = 0; i < kPlaces; ++i) {
      numbers_[i] = entries_[i].qpn;
      if (entries_[i].until <= latest) continue;
      latest = entries_[i].until;
      next_ = (i + 1) % kPlaces;
    }
  }

  void add(const TimeWait& entry) {
    const std::size_t place = place_for(entry.tenant);
    numbers_[place] = entry.qpn;
    entries_[place] = entry;
  }

  /// Returns the entry of a queue pair. Null: there is none, or its time is over. Queue pair number
  /// 0 is never found.
  TimeWait* find(Qpn qpn, Time now) {
    if (qpn == Qpn()) return nullptr;
    for (std::size_t i = 0; i < kPlaces; ++i)
      if (numbers_[i] == qpn) return now < entries_[i].until ? &entries_[i] : nullptr;
    return nullptr;
  }

 private:
  std::size_t place_for(TenantId tenant) {
    std::size_t held = 0;
    std::size_t oldest = kPlaces;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      if (numbers_[i] == Qpn() || entries_[i].tenant != tenant) continue;
      ++held;
      if (oldest == kPlaces || entries_[i].until < entries_[oldest].until) oldest = i;
    }
    if (held >= kPlacesOfTenant) return oldest;
    const std::size_t place = next_;
    next_ = (next_ + 1) % kPlaces;
    return place;
  }

  std::vector<Qpn> numbers_;  ///< apart from the entries: a search reads only these
  std::span<TimeWait> entries_;
  std::size_t next_ = 0;
};

}  // namespace softhca::engine
