// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/placement.hpp"

#include <sched.h>

#include <cstdlib>
#include <cstring>

#include "libverbs-provider/client_session.hpp"
#include "libverbs-provider/verbs/clock.hpp"

namespace softhca::provider {
namespace {

/// Meetings one after another before a thread moves.
constexpr std::uint32_t kMeetings = 16;
/// The kernel may have reasons to bring a thread back. So it does not move more often, in ns.
constexpr std::uint64_t kInterval = 100'000'000;

bool is_allowed() {
  static const bool allowed = [] {
    const char* const move = std::getenv("SOFTHCA_MOVE");
    return move == nullptr || std::strcmp(move, "0") != 0;
  }();
  return allowed;
}

/// Moves the calling thread off a processor, if it may use others.
void leave(unsigned cpu) {
  cpu_set_t before;
  if (::sched_getaffinity(0, sizeof before, &before) != 0) return;
  cpu_set_t others = before;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0) return;
  if (::sched_setaffinity(0, sizeof others, &others) == 0)
    ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace

bool Placement::after_empty_poll(const ClientSession& session) {
  const int cpu = ::sched_getcpu();
  if (cpu < 0 || !session.engine_is_on(static_cast<unsigned>(cpu))) {
    if (meetings_.load(std::memory_order_relaxed) != 0)
      meetings_.store(0, std::memory_order_relaxed);
    return false;
  }
  if (meetings_.fetch_add(1, std::memory_order_relaxed) + 1 < kMeetings || !is_allowed())
    return true;
  meetings_.store(0, std::memory_order_relaxed);
  const std::uint64_t time = nanoseconds(CLOCK_MONOTONIC);
  std::uint64_t last = moved_at_.load(std::memory_order_relaxed);
  if (time - last < kInterval ||
      !moved_at_.compare_exchange_strong(last, time, std::memory_order_relaxed))
    return true;
  leave(static_cast<unsigned>(cpu));
  return false;
}

}  // namespace softhca::provider
