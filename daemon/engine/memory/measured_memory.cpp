// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/memory/measured_memory.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "daemon/engine/records/system_clock.hpp"
#include "daemon/engine/turns/work_clock.hpp"

namespace softhca::engine {
namespace {

/// An access that takes longer may have been a wait. It may also have been a large copy, or the
/// thread had no processor, and then the tenant is not at fault. To tell these apart costs a system
/// call, so it is made only for memory that was slow lately.
constexpr Duration kUsual = std::chrono::microseconds(100);
constexpr Duration kSuspected = std::chrono::seconds(1);
constexpr int kSuspectedTimes = 100;  ///< at least, of what the access took

/// Returns how often this thread has gone to sleep.
long sleeps_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

}  // namespace

Verdict MeasuredMemory::read(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(false, local, remote);
}

Verdict MeasuredMemory::write(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(true, local, remote);
}

Verdict MeasuredMemory::transfer(bool writes, std::span<iovec> local, std::span<iovec> remote) {
  const Time begun = monotonic_time();
  const bool suspected = begun < suspected_until_;
  const long sleeps = suspected ? sleeps_so_far() : 0;
  const Verdict done = writes ? reached_->write(local, remote) : reached_->read(local, remote);
  const Time now = monotonic_time();
  const Duration took = now - begun;
  if (took <= kUsual) return done;
  suspected_until_ = std::max(suspected_until_, now + std::max(kSuspected, kSuspectedTimes * took));
  if (suspected && sleeps_so_far() != sleeps) {
    WorkClock::count_wait(took);
    waited_(took);
  }
  return done;
}

}  // namespace softhca::engine
