// Memory that the daemon shares with the process that reaches tenants' memory for it
// (memory_proxy.hpp). Each access has a place here; the process makes them in the order in which
// the engine asks for them. Both are the daemon's; no tenant maps it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "daemon/base/time.hpp"
#include "daemon/memory/scatter_list.hpp"

namespace softhca::engine {

struct ProxyArea {
  /// Bytes of one access at most.
  static constexpr std::size_t kBytes = 64 << 10;
  /// Accesses under way at most. A power of two, so that counters may wrap.
  static constexpr std::uint32_t kPlaces = 16;

  enum Kind : std::uint32_t { kRead, kWrite, kAtomic };
  struct Range {
    std::uint64_t addr;  ///< in the process
    std::uint64_t length;
  };
  struct Access {
    std::uint32_t memory;
    std::uint32_t kind;  ///< Kind
    std::uint32_t ranges;
    std::uint32_t ok;  ///< written by the process: not 0, it has succeeded
    std::array<Range, memory::kMaxEntries> range;
  };
  /// In the bytes of an atomic.
  struct Atomic {
    std::uint64_t operation;  ///< memory::AtomicOp
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint64_t original;  ///< written by the process
  };

  std::atomic<std::uint32_t> wake;      ///< futex: changes when there is something for the process
  std::atomic<std::uint32_t> slept;     ///< what `wake` was when the process went to sleep last
  std::atomic<std::uint32_t> messages;  ///< sent on its socket
  std::atomic<std::uint32_t> taken;     ///< of these, by the process
  std::atomic<std::uint32_t> asked;     ///< accesses, so far
  std::atomic<std::uint32_t> done;      ///< futex: of these, all before this number are done
  std::atomic<std::uint32_t> waiting;   ///< not 0: the engine sleeps until `done` changes
  /// Since when the process has been at work on the access at hand, by the clock of the machine;
  /// ns, 0: it sleeps.
  std::atomic<std::uint64_t> awake;
  std::uint32_t
      kept_waiting;  ///< not 0: the process went to sleep in the last access that was done
  std::array<std::uint32_t, kPlaces> order;  ///< place of access number n, at n % kPlaces
  std::array<Access, kPlaces> access;
  alignas(4096) std::array<std::array<std::byte, kBytes>, kPlaces> bytes;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A record on the socket of the process. With `adds` the socket of a memory::OfferedMemory comes
/// with it, which is `memory` from then on; without, that one is to be closed.
struct ProxyMessage {
  std::uint32_t memory;
  std::uint32_t adds;
};

/// Sleeps as long as `word` is `value`, `most` at most; may return earlier.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, Duration most) {
  const timespec time{.tv_sec = static_cast<time_t>(most.count() / 1'000'000'000),
                      .tv_nsec = static_cast<long>(most.count() % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}
inline void futex_wake(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace softhca::engine
