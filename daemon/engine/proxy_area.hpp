// Memory that the daemon shares with the process that reaches tenants' memory for it
// (memory_proxy.hpp): one access at a time. Both are the daemon's; no tenant maps it.
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
  enum State : std::uint32_t { kNothing, kAsked, kDone };
  /// Bytes of one access at most.
  static constexpr std::size_t kBytes = 64 << 10;

  struct Range {
    std::uint64_t addr;  ///< in the process
    std::uint64_t length;
  };

  std::atomic<std::uint32_t> wake;      ///< futex: changes when there is something for the process
  std::atomic<std::uint32_t> messages;  ///< sent on its socket
  std::atomic<std::uint32_t> taken;     ///< of these, by the process
  std::atomic<std::uint32_t> state;     ///< futex: State
  /// Since when the process has been at work, by the clock of the machine; ns, 0: it sleeps.
  std::atomic<std::uint64_t> awake;
  /// When the access is done: ns that it took; without those in which a process that did not go to
  /// sleep lacked a processor.
  std::uint64_t took;
  // Of the access.
  std::uint32_t memory;
  std::uint32_t writes;
  std::uint32_t ranges;
  std::uint32_t ok;
  std::int32_t cpu;  ///< of the engine, if it has one of its own; else negative
  std::array<Range, memory::kMaxEntries> range;
  alignas(4096) std::array<std::byte, kBytes> bytes;
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
