// SPDX-License-Identifier: Apache-2.0

// Memory that the daemon shares with its memory proxy process, which accesses tenants' memory for
// it (memory_proxy.hpp). Each access has a place here. The process performs accesses in the order
// in which the engine requests them. Both processes belong to the daemon; no tenant maps this
// memory.
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
#include "daemon/tenant_memory/scatter_list.hpp"

namespace softhca::memory {

struct ProxyArea {
  /// Most bytes of one access.
  static constexpr std::size_t kBytes = 64 << 10;
  /// Most accesses in progress. A power of two, so that counters may wrap.
  static constexpr std::uint32_t kPlaces = 16;

  enum Kind : std::uint32_t { kRead, kWrite, kAtomic };
  struct Range {
    std::uint64_t addr;  ///< address in the tenant's process
    std::uint64_t length;
  };
  struct Access {
    std::uint32_t memory;
    std::uint32_t kind;  ///< Kind
    std::uint32_t ranges;
    std::uint32_t ok;  ///< written by the process: not 0 if the access succeeded
    std::array<Range, kMaxEntries> range;
  };
  /// The layout of `bytes` for an atomic.
  struct Atomic {
    std::uint64_t operation;  ///< AtomicOp
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint64_t original;  ///< written by the process
  };

  std::atomic<std::uint32_t> wake;      ///< futex: changes when the process has work
  std::atomic<std::uint32_t> slept;     ///< value of `wake` when the process last went to sleep
  std::atomic<std::uint32_t> messages;  ///< messages sent on its socket
  std::atomic<std::uint32_t> taken;     ///< messages that the process has read
  std::atomic<std::uint32_t> asked;     ///< accesses requested so far
  std::atomic<std::uint32_t> done;      ///< futex: all accesses before this number are done
  std::atomic<std::uint32_t> waiting;   ///< not 0: the engine sleeps until `done` changes
  /// Not 0: the process is in an access, or takes a message, which its tenant can delay. Else it
  /// sleeps, or waits for a processor.
  std::atomic<std::uint32_t> working;
  /// Not 0: the process slept during the access that was done last.
  std::uint32_t kept_waiting;
  std::array<std::uint32_t, kPlaces> order;  ///< place of access number n, at n % kPlaces
  std::array<Access, kPlaces> access;
  alignas(4096) std::array<std::array<std::byte, kBytes>, kPlaces> bytes;
};

/// A record on the socket of the process. With `adds`, the socket of a OfferedMemory is
/// attached to the record and becomes `memory`. Without it, the process closes `memory`.
struct ProxyMessage {
  std::uint32_t memory;
  std::uint32_t adds;
};

/// Sleeps while `word` has `value`, for at most `most`. It may return earlier.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, Duration most) {
  const timespec time{.tv_sec = static_cast<time_t>(most.count() / 1'000'000'000),
                      .tv_nsec = static_cast<long>(most.count() % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}
inline void futex_wake(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace softhca::memory
