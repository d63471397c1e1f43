// Reliable connections that are gone but whose peer may not know yet that all it sent arrived.
//
// A program that ends after its last message takes its queue pair away; when the last
// acknowledgement was lost, its peer would retry without an answer and fail. For a while after its
// end the adapter therefore goes on acknowledging what the queue pair had executed, and nothing
// else: the TimeWait of a connection (InfiniBand specification, volume 1, 12.9.8.4) put to the use
// TCP puts its own to (RFC 9293, 3.4).
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/engine/objects.hpp"
#include "daemon/wire/headers.hpp"

namespace softhca::engine {

struct TimeWait {
  Qpn qpn;
  TenantId tenant;
  wire::Headers answer;  ///< the acknowledgement of everything executed
  Route route;
  Time until{};
};

/// The connections that ended last; when the places are taken, the oldest gives up its place early.
/// A tenant has at most a quarter of the places; then its own oldest makes room.
class TimeWaitTable {
 public:
  static constexpr std::size_t kPlaces = 256;
  static constexpr std::size_t kPlacesOfTenant = kPlaces / 4;

  TimeWaitTable() : numbers_(kPlaces), entries_(kPlaces) {}

  void add(const TimeWait& entry) {
    const std::size_t place = place_for(entry.tenant);
    numbers_[place] = entry.qpn;
    entries_[place] = entry;
  }

  /// Null when there is none or its time is over. Queue pair number 0 is never found.
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

  std::vector<Qpn> numbers_;  ///< beside the entries: a search looks at nothing else
  std::vector<TimeWait> entries_;
  std::size_t next_ = 0;
};

}  // namespace softhca::engine
