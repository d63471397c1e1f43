// Reaches the memory of one tenant's processes by a process of the daemon's own. Such an access may
// be kept waiting by the tenant: by a page fault that is not served, by locks of its memory. Here
// nobody waits for longer than a bound, and not again and again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/base/verdict.hpp"
#include "daemon/engine/counters.hpp"
#include "daemon/engine/proxy_area.hpp"
#include "daemon/memory/process_memory.hpp"

namespace softhca::engine {

/// How long the engine waits for accesses of one tenant: each `longest`, and what takes longer than
/// `usual` only `burst` in all, which comes back at `share` of the time.
struct AccessBounds {
  Duration usual = std::chrono::microseconds(200);
  Duration longest = std::chrono::milliseconds(50);
  Duration burst = std::chrono::milliseconds(200);
  double share = 0.01;
  /// For the process to get a processor; the tenant does not answer for that.
  Duration start = std::chrono::seconds(1);
};

class MemoryProxy {
 public:
  /// Makes a process that runs serve_memory_proxy() with copies of these descriptors.
  using Start = std::function<Outcome(int area, int socket)>;

  /// Told how long an access took that took longer than usual, on the engine's thread.
  using Waited = std::function<void(Duration)>;

  /// Errors: what the system says where it has no memory, no descriptor or no process left.
  static Expected<std::shared_ptr<MemoryProxy>> create(const Start& start, MemoryCounters& counters,
                                                       Waited waited,
                                                       const AccessBounds& bounds = {});
  /// The process ends; one that waits does so when it comes back.
  ~MemoryProxy();
  MemoryProxy(const MemoryProxy&) = delete;
  MemoryProxy& operator=(const MemoryProxy&) = delete;

  /// The memory that a process offers at the other end of `socket` (memory::OfferedMemory). Its
  /// accesses fail as those to memory that is not mapped do, when they come to their bound, and at
  /// once until the one that did comes back. Errors: EBUSY (it is late), EPIPE (the process has
  /// ended: a new proxy is needed).
  static Expected<std::shared_ptr<memory::ProcessMemory>> add(
      const std::shared_ptr<MemoryProxy>& proxy, int socket);

  /// An access has come to its bound, and has not come back. Any thread.
  bool is_late() const;

 private:
  class Memory;

  MemoryProxy(ProxyArea& area, UniqueFd socket, MemoryCounters& counters, Waited waited,
              const AccessBounds& bounds);
  bool tell(const ProxyMessage& message, int fd);
  void remove(std::uint32_t memory);
  void tell_removed();
  Verdict transfer(std::uint32_t memory, bool writes, std::span<iovec> local,
                   std::span<iovec> remote);
  std::size_t describe(std::span<iovec>& remote);
  Verdict access();
  bool comes_back();
  bool has_ended() const;
  void look_for_cpu();
  void wake();

  ProxyArea& area_;
  const AccessBounds bounds_;

  // Of the engine's thread.
  TokenBucket waits_;  ///< nanoseconds
  bool knows_cpu_ = false;
  std::atomic<bool> late_{false};
  MemoryCounters& counters_;
  const Waited waited_;

  // Of any thread.
  std::mutex mutex_;
  UniqueFd socket_;
  std::uint32_t next_ = 0;
  std::vector<std::uint32_t> untold_;  ///< to be removed, for which the socket had no room
};

}  // namespace softhca::engine
