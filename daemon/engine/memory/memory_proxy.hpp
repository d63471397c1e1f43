// SPDX-License-Identifier: Apache-2.0

// Reaches the memory of one tenant's processes by a process of the daemon. The tenant may delay
// such an access: by a page fault that is not served, or by locks of its memory. The access also
// takes tens of microseconds if that process has to be woken. So the engine does not wait for it,
// but repeats the step of the queue pair that needs it (memory_waits.hpp). Where the engine has to
// wait, it does so for a bounded time, and reports all of it.
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
#include "daemon/engine/memory/memory_waits.hpp"
#include "daemon/engine/records/counters.hpp"
#include "daemon/tenant_memory/process_memory.hpp"
#include "daemon/tenant_memory/proxy_area.hpp"

namespace softhca::engine {

/// Time limits. An access may take `longest`. The engine waits as long, where it has to wait, but
/// only `usual` once such waits have taken `burst` in all. The burst refills at `share` of the
/// time. (Waits of up to `usual` do not count here.)
struct AccessBounds {
  Duration usual = std::chrono::microseconds(200);
  Duration longest = std::chrono::milliseconds(50);
  Duration burst = std::chrono::milliseconds(200);
  double share = 0.01;
  /// For the process to get a processor; the tenant is not responsible for that.
  Duration start = std::chrono::seconds(1);
};

using memory::ProxyArea;
using memory::ProxyMessage;

class MemoryProxy : public std::enable_shared_from_this<MemoryProxy> {
 public:
  /// Makes a process that runs serve_memory_proxy() with copies of these descriptors.
  using Start = std::function<Outcome(int area, int socket)>;

  /// Called with the time that the engine has waited, each time, on its thread.
  using Waited = std::function<void(Duration)>;

  /// What the proxy uses of its tenant and of the engine.
  struct User {
    MemoryCounters& counters;
    MemoryWaits& waits;
    Waited waited;
  };

  /// Errors: those of the system, if it has no memory, descriptor or process left.
  static Expected<std::shared_ptr<MemoryProxy>> create(const Start& start, User user,
                                                       const AccessBounds& bounds = {});
  /// Makes accesses in a virtual machine, by the machine's agent. `area`: in memory that the
  /// machine writes, too, kept alive by `owner`. `bell`: a socket to the agent (abi::MachineBell).
  static std::shared_ptr<MemoryProxy> create_in_machine(std::shared_ptr<void> owner,
                                                        std::byte* area, int bell, User user);
  /// True if the accesses are made in that machine.
  bool is_of(const void* owner) const { return owner_.get() == owner; }
  /// As add(), for the memory that the agent knows by this number. Errors: EBUSY, EPIPE.
  static Expected<std::shared_ptr<memory::ProcessMemory>> add(
      const std::shared_ptr<MemoryProxy>& proxy, std::uint32_t number);
  /// Ends the process. One that waits in an access ends when that comes back.
  ~MemoryProxy();
  MemoryProxy(const MemoryProxy&) = delete;
  MemoryProxy& operator=(const MemoryProxy&) = delete;

  /// Returns the memory that a process offers at the other end of `socket` (memory::OfferedMemory).
  /// An access that reaches its time limit fails like one to memory that is not mapped. Further
  /// accesses fail at once until that one has come back. Errors: EBUSY (an access is late), EPIPE
  /// (the process has ended: a new proxy is needed). `wait`: how long after its start the
  /// process may take to read what it was told before.
  static Expected<std::shared_ptr<memory::ProcessMemory>> add(
      const std::shared_ptr<MemoryProxy>& proxy, int socket, Duration wait = {});

  /// True if an access has reached its time limit and has not come back. Any thread.
  bool is_late() const;

  // --- for MemoryWaits
  bool counts_for(const MemoryCounters& of) const { return &user_.counters == &of; }
  /// True if an access in progress writes.
  bool writes() const { return writing_ != 0; }
  /// Reports accesses that are done, and those that have reached their time limit. False: none is
  /// in progress.
  bool collect();
  /// To be called when the proxy is not listed as busy any more.
  void left() { listed_ = false; }
  /// Waits until no access is in progress.
  void settle();
  /// Gives a place back: what was read there, or is going to be, is not needed any more.
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
  /// How long the engine has waited for an access.
  struct Patience {
    Time last{};
    Duration idle{};  ///< while the process had no processor
    Duration at_work{};
    bool is_out(const AccessBounds& bounds, Duration longest) const {
      return idle >= bounds.start || at_work >= longest;
    }
  };
  /// A place for the engine alone, so that it can always wait for an access.
  static constexpr std::uint32_t kOwnPlace = ProxyArea::kPlaces - 1;

  MemoryProxy(ProxyArea& area, std::shared_ptr<void> owner, UniqueFd socket, User user,
              const AccessBounds& bounds);
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
  bool is_full() const;
  void wake();
  void ring_bell(std::uint32_t ended);
  std::span<std::byte> bytes_of(std::uint32_t place) { return area_.bytes[place]; }

  ProxyArea& area_;
  const std::shared_ptr<void>
      owner_;  ///< of the area, in a virtual machine; null: the area is ours
  const AccessBounds bounds_;
  const User user_;
  const Time began_;

  // Used by the engine's thread.
  TokenBucket waits_;  ///< nanoseconds
  std::array<Place, ProxyArea::kPlaces> places_;
  std::array<std::uint32_t, ProxyArea::kPlaces> order_{};  ///< as in the area
  std::uint32_t asked_ = 0;
  std::uint32_t collected_ = 0;  ///< of these, reported
  std::uint32_t writing_ = 0;    ///< in progress that write
  bool listed_ = false;          ///< MemoryWaits knows that it is busy
  bool known_ = false;           ///< the current access was found done
  Patience patience_;            ///< for the oldest access in progress
  Time asked_whether_ended_{};
  std::atomic<bool> late_{false};

  // Used by any thread.
  std::mutex mutex_;
  UniqueFd socket_;
  std::uint32_t next_ = 0;
  std::vector<std::uint32_t> untold_;  ///< to be removed, for which the socket had no room
};

}  // namespace softhca::engine
