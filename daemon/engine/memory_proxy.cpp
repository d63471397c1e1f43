#include "daemon/engine/memory_proxy.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/engine/system_clock.hpp"
#include "daemon/engine/work_clock.hpp"

namespace softhca::engine {
namespace {

constexpr Duration kSlice = std::chrono::milliseconds(1);

/// Moves `bytes` between `packed` and the entries of `list`, which are used up.
template <class Move>
void for_bytes(std::span<iovec>& list, std::byte* packed, std::size_t bytes, Move&& move) {
  for (memory::skip_bytes(list, 0); bytes != 0;) {
    const std::size_t part = std::min(bytes, list.front().iov_len);
    move(static_cast<std::byte*>(list.front().iov_base), packed, part);
    packed += part;
    bytes -= part;
    memory::skip_bytes(list, part);
  }
}

}  // namespace

/// That of one process.
class MemoryProxy::Memory final : public memory::ProcessMemory {
 public:
  Memory(std::shared_ptr<MemoryProxy> proxy, std::uint32_t number)
      : proxy_(std::move(proxy)), number_(number) {}
  ~Memory() override { proxy_->remove(number_); }

  Verdict read(std::span<iovec> local, std::span<iovec> remote) override {
    return proxy_->transfer(number_, false, local, remote);
  }
  Verdict write(std::span<iovec> local, std::span<iovec> remote) override {
    return proxy_->transfer(number_, true, local, remote);
  }

 private:
  std::shared_ptr<MemoryProxy> proxy_;
  std::uint32_t number_;
};

Expected<std::shared_ptr<MemoryProxy>> MemoryProxy::create(const Start& start,
                                                           MemoryCounters& counters, Waited waited,
                                                           const AccessBounds& bounds) {
  const UniqueFd area(::memfd_create("softhca-memory-proxy", MFD_CLOEXEC));
  if (!area || ::ftruncate(area.get(), sizeof(ProxyArea)) != 0)
    return system_error("the process that reaches memory");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("the process that reaches memory");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  // Populated, and read from swap by nobody: the engine takes no page faults here.
  void* at = ::mmap(nullptr, sizeof(ProxyArea), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    area.get(), 0);
  if (at == MAP_FAILED) return system_error("the process that reaches memory");
  ::mlock2(at, sizeof(ProxyArea), MLOCK_ONFAULT);
  std::shared_ptr<MemoryProxy> proxy(new MemoryProxy(*static_cast<ProxyArea*>(at), std::move(ours),
                                                     counters, std::move(waited), bounds));
  if (auto started = start(area.get(), theirs.get()); !started) return started.error();
  return proxy;
}

MemoryProxy::MemoryProxy(ProxyArea& area, UniqueFd socket, MemoryCounters& counters, Waited waited,
                         const AccessBounds& bounds)
    : area_(area),
      bounds_(bounds),
      counters_(counters),
      waited_(std::move(waited)),
      socket_(std::move(socket)) {
  waits_.set({.per_second = static_cast<std::uint64_t>(1e9 * bounds.share),
              .burst = static_cast<std::uint64_t>(bounds.burst.count())},
             monotonic_time());
}

MemoryProxy::~MemoryProxy() {
  socket_.reset();
  area_.messages.fetch_add(1, std::memory_order_release);
  wake();
  ::munmap(&area_, sizeof(ProxyArea));
}

Expected<std::shared_ptr<memory::ProcessMemory>> MemoryProxy::add(
    const std::shared_ptr<MemoryProxy>& proxy, int socket) {
  const std::lock_guard lock(proxy->mutex_);
  if (proxy->has_ended()) return Error{"the process that reaches memory has ended", EPIPE};
  constexpr std::uint32_t kMany = 64;
  const ProxyArea& area = proxy->area_;
  if (proxy->is_late() ||
      area.messages.load(std::memory_order_relaxed) - area.taken.load(std::memory_order_relaxed) >
          kMany)
    return Error{"an access to the tenant's memory does not come back", EBUSY};
  proxy->tell_removed();
  const std::uint32_t number = ++proxy->next_;
  if (!proxy->tell({.memory = number, .adds = 1}, socket))
    return system_error("the process that reaches memory");
  return std::shared_ptr<memory::ProcessMemory>(std::make_shared<Memory>(proxy, number));
}

void MemoryProxy::remove(std::uint32_t memory) {
  const std::lock_guard lock(mutex_);
  untold_.push_back(memory);
  tell_removed();
}

/// REQUIRES: the lock.
void MemoryProxy::tell_removed() {
  while (!untold_.empty() && tell({.memory = untold_.back(), .adds = 0}, -1)) untold_.pop_back();
}

/// REQUIRES: the lock. False and errno set: there is no room, or the process has ended.
bool MemoryProxy::tell(const ProxyMessage& message, int fd) {
  const std::span fds(&fd, fd >= 0 ? 1 : 0);
  if (send_with_descriptors(socket_.get(), std::as_bytes(std::span{&message, 1}), fds) < 0)
    return false;
  area_.messages.fetch_add(1, std::memory_order_release);
  wake();
  return true;
}

void MemoryProxy::wake() {
  area_.wake.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(area_.wake);
}

bool MemoryProxy::is_late() const {
  return late_.load(std::memory_order_relaxed) &&
         area_.state.load(std::memory_order_acquire) == ProxyArea::kAsked;
}

/// What the next access reaches of `remote`, which is used up. Returns its bytes.
std::size_t MemoryProxy::describe(std::span<iovec>& remote) {
  std::size_t bytes = 0;
  area_.ranges = 0;
  for (memory::skip_bytes(remote, 0);
       !remote.empty() && area_.ranges < memory::kMaxEntries && bytes < ProxyArea::kBytes;) {
    const std::size_t part = std::min(remote.front().iov_len, ProxyArea::kBytes - bytes);
    area_.range[area_.ranges++] = {reinterpret_cast<std::uintptr_t>(remote.front().iov_base), part};
    bytes += part;
    memory::skip_bytes(remote, part);
  }
  return bytes;
}

Verdict MemoryProxy::transfer(std::uint32_t memory, bool writes, std::span<iovec> local,
                              std::span<iovec> remote) {
  if (is_late()) return Verdict::kLocalProtection;
  late_.store(false, std::memory_order_relaxed);
  for (;;) {
    const std::size_t bytes = describe(remote);
    if (bytes == 0) return Verdict::kOk;
    area_.memory = memory;
    area_.writes = writes;
    std::byte* const packed = area_.bytes.data();
    if (writes)
      for_bytes(local, packed, bytes, [](const std::byte* from, std::byte* to, std::size_t n) {
        std::memcpy(to, from, n);
      });
    if (const Verdict done = access(); done != Verdict::kOk) return done;
    if (!writes)
      for_bytes(local, packed, bytes, [](std::byte* to, const std::byte* from, std::size_t n) {
        std::memcpy(to, from, n);
      });
  }
}

/// The process keeps to the engine's processor, which is free as long as the engine waits: another
/// one would have to be woken.
void MemoryProxy::look_for_cpu() {
  cpu_set_t all;
  CPU_ZERO(&all);
  const bool is_bound = ::sched_getaffinity(0, sizeof all, &all) == 0 && CPU_COUNT(&all) == 1;
  area_.cpu = is_bound ? ::sched_getcpu() : -1;
  knows_cpu_ = true;
}

/// What the area describes.
Verdict MemoryProxy::access() {
  counters_.process_accesses.add();
  if (!knows_cpu_) look_for_cpu();
  area_.state.store(ProxyArea::kAsked, std::memory_order_release);
  wake();
  if (!comes_back()) {
    counters_.late_accesses.add();
    late_.store(true, std::memory_order_relaxed);
    return Verdict::kLocalProtection;
  }
  return area_.ok != 0 ? Verdict::kOk : Verdict::kLocalProtection;
}

/// Waits for the access that was asked for. False: it has come to its bound.
bool MemoryProxy::comes_back() {
  const Time asked = monotonic_time();
  Time now = asked;
  Time at_work = kNever;  // since when the process has been, for this
  Duration lacked{};      // that this thread had no processor
  bool is_late = false;
  while (!is_late && area_.state.load(std::memory_order_acquire) != ProxyArea::kDone) {
    const std::uint64_t awake = area_.awake.load(std::memory_order_relaxed);
    if (awake != 0) at_work = std::max(asked, Time(Duration(awake)));
    const Duration allowed = waits_.ready_at() <= now ? bounds_.longest : bounds_.usual;
    const Time end = (awake == 0 ? asked + bounds_.start : at_work + allowed) + lacked;
    is_late = now >= end || (now != asked && has_ended());
    if (is_late) break;
    const Duration slice = std::min<Duration>(end - now, kSlice);
    futex_wait(area_.state, ProxyArea::kAsked, slice);
    const Time woken = monotonic_time();
    lacked += std::max(woken - now - slice - kSlice, Duration::zero());
    now = woken;
  }
  WorkClock::count_wait(now - asked - lacked);
  const Duration took = !is_late            ? Duration(area_.took)
                        : at_work != kNever ? now - at_work - lacked
                                            : Duration::zero();
  if (took > bounds_.usual) {
    waits_.charge(static_cast<std::uint64_t>(took.count()), now);
    waited_(took);
  }
  return !is_late;
}

/// The process has, or could not be made.
bool MemoryProxy::has_ended() const {
  pollfd state{socket_.get(), 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace softhca::engine
