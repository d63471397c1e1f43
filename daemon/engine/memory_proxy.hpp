// Reaches the memory of one tenant's processes by a process of the daemon's own. Such an access may
// be kept waiting by the tenant: by a page fault that is not served, by locks of its memory. It
// also takes tens of microseconds where that process has to be woken. So the engine does not wait
// for it, but for the step of a queue pair that can be repeated (memory_waits.hpp). Where it has to
// wait, it does so for a bounded time, and all of it is told.
#pragma once

#include <array>
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
#include "daemon/engine/memory_waits.hpp"
#include "daemon/engine/proxy_area.hpp"
#include "daemon/memory/process_memory.hpp"

namespace softhca::engine {

/// How long an access may take: `longest`. How long the engine waits where it has to: likewise, but
/// `usual` once such waits have taken `burst` in all, which comes back at `share` of the time.
/// (Waits of up to `usual` do not count here.)
struct AccessBounds {
  Duration usual = std::chrono::microseconds(200);
  Duration longest = std::chrono::milliseconds(50);
  Duration burst = std::chrono::milliseconds(200);
  double share = 0.01;
  /// For the process to get a processor; the tenant does not answer for that.
  Duration start = std::chrono::seconds(1);
};

class MemoryProxy : public std::enable_shared_from_this<MemoryProxy> {
 public:
  /// Makes a process that runs serve_memory_proxy() with copies of these descriptors.
  using Start = std::function<Outcome(int area, int socket)>;

  /// Told how long the engine has waited, each time, on its thread.
  using Waited = std::function<void(Duration)>;

  /// What it uses of its tenant and of the engine.
  struct User {
    MemoryCounters& counters;
    MemoryWaits& waits;
    Waited waited;
  };

  /// Errors: what the system says where it has no memory, no descriptor or no process left.
  static Expected<std::shared_ptr<MemoryProxy>> create(const Start& start, User user,
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

  // --- for MemoryWaits
  bool counts_for(const MemoryCounters& of) const { return &user_.counters == &of; }
  /// True: an access is under way that writes.
  bool writes() const { return writing_ != 0; }
  /// Reports accesses that are done, and those that have come to their bound. False: none is under
  /// way.
  bool collect();
  /// It is not listed as busy any more.
  void left() { listed_ = false; }
  /// Waits until none is under way.
  void settle();
  /// What was read to this place, or is going to be, is not wanted any more.
  void give_back(std::uint32_t place);

 private:
  class Memory;
  using Kind = ProxyArea::Kind;
  /// A part of a transfer that one access makes.
  struct Part {
    Kind kind = ProxyArea::kRead;
    std::uint32_t memory = 0;
    std::uint32_t ranges = 0;
    std::size_t bytes = 0;
    std::array<ProxyArea::Range, memory::kMaxEntries> range;
  };
  struct Place {
    enum class State : std::uint8_t { kFree, kAsked, kHeld, kLost };
    State state = State::kFree;
    bool writes = false;
    bool keeps = false;
    std::uint32_t waiter = MemoryWaits::kNobody;
  };
  /// How long something has been waited for.
  struct Patience {
    Time last{};
    Duration idle{};  ///< while the process had no processor
    Duration at_work{};
    bool is_out(const AccessBounds& bounds, Duration longest) const {
      return idle >= bounds.start || at_work >= longest;
    }
  };
  /// Only the engine uses this place, so that it may always wait for an access.
  static constexpr std::uint32_t kOwnPlace = ProxyArea::kPlaces - 1;

  MemoryProxy(ProxyArea& area, UniqueFd socket, User user, const AccessBounds& bounds);
  bool tell(const ProxyMessage& message, int fd);
  void remove(std::uint32_t memory);
  void tell_removed();
  bool may_ask();
  Verdict transfer(std::uint32_t memory, Kind kind, std::span<iovec> local,
                   std::span<iovec> remote);
  Verdict run_atomic(std::uint32_t memory, std::uint64_t addr, ProxyArea::Atomic& operands);
  static Part describe(std::span<iovec>& remote);
  template <class Fill, class Take>
  Verdict access(const Part& part, Fill&& fill, Take&& take);
  std::uint32_t free_place() const;
  void ask(const Part& part, std::uint32_t place, std::uint32_t waiter, bool keeps);
  void finish(std::uint32_t place, Verdict verdict);
  void lose();
  bool wait_for(std::uint32_t asked);
  void pass(Patience& patience, Time now);
  bool has_ended() const;
  void wake();
  std::span<std::byte> bytes_of(std::uint32_t place) { return area_.bytes[place]; }

  ProxyArea& area_;
  const AccessBounds bounds_;
  const User user_;

  // Of the engine's thread.
  TokenBucket waits_;  ///< nanoseconds
  std::array<Place, ProxyArea::kPlaces> places_;
  std::array<std::uint32_t, ProxyArea::kPlaces> order_{};  ///< as in the area
  std::uint32_t asked_ = 0;
  std::uint32_t collected_ = 0;  ///< of these, reported
  std::uint32_t writing_ = 0;    ///< under way that write
  bool listed_ = false;          ///< MemoryWaits knows that it is busy
  bool known_ = false;           ///< the access at hand was found done
  Patience patience_;            ///< with the oldest access under way
  Time asked_whether_ended_{};
  std::atomic<bool> late_{false};

  // Of any thread.
  std::mutex mutex_;
  UniqueFd socket_;
  std::uint32_t next_ = 0;
  std::vector<std::uint32_t> untold_;  ///< to be removed, for which the socket had no room
};

}  // namespace softhca::engine
