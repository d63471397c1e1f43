#include "daemon/engine/memory_proxy_process.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cerrno>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/engine/proxy_area.hpp"
#include "daemon/engine/system_clock.hpp"
#include "daemon/memory/offered_memory.hpp"

namespace softhca::engine {
namespace {

class Server {
 public:
  Server(ProxyArea& area, UniqueFd socket) : area_(area), socket_(std::move(socket)) {}

  void serve() {
    constexpr auto kLong = std::chrono::hours(1);
    for (;;) {
      area_.awake.store(nanoseconds(monotonic_time()), std::memory_order_relaxed);
      const std::uint32_t seen = area_.wake.load(std::memory_order_acquire);
      // In this order: it is told of a memory before that is used.
      const bool asked = area_.state.load(std::memory_order_acquire) == ProxyArea::kAsked;
      if (!take_messages()) return;
      if (asked) {
        answer();
        continue;
      }
      area_.awake.store(0, std::memory_order_relaxed);
      futex_wait(area_.wake, seen, kLong);
    }
  }

 private:
  /// False: the daemon is done with this process.
  bool take_messages() {
    const std::uint32_t sent = area_.messages.load(std::memory_order_acquire);
    if (sent == area_.taken.load(std::memory_order_relaxed)) return true;
    for (;;) {
      ProxyMessage message{};
      std::array<UniqueFd, 1> fds;
      const ssize_t got = receive_with_descriptors(
          socket_.get(), std::as_writable_bytes(std::span{&message, 1}), fds, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) {
        area_.taken.store(sent, std::memory_order_relaxed);
        return true;
      }
      if (got != sizeof message) return false;
      if (message.adds == 0)
        memories_.erase(message.memory);
      else
        memories_[message.memory] = std::make_unique<memory::OfferedMemory>(std::move(fds[0]));
    }
  }

  void answer() {
    follow_engine();
    const Time begun = monotonic_time();
    const Duration worked = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    const long waits = waits_so_far();
    area_.ok = run() == Verdict::kOk;
    const bool has_waited = waits_so_far() != waits;
    const Duration took =
        has_waited ? monotonic_time() - begun : read_clock(CLOCK_PROCESS_CPUTIME_ID) - worked;
    area_.took = static_cast<std::uint64_t>(took.count());
    area_.state.store(ProxyArea::kDone, std::memory_order_release);
    futex_wake(area_.state);
  }

  static std::uint64_t nanoseconds(Time time) {
    return static_cast<std::uint64_t>(time.time_since_epoch().count());
  }

  /// How often this process has gone to sleep. That it lacked a processor is not among it.
  static long waits_so_far() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  }

  /// To the processor that the engine leaves meanwhile.
  void follow_engine() {
    if (area_.cpu < 0 || area_.cpu == cpu_) return;
    cpu_ = area_.cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(cpu_), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }

  Verdict run() {
    const auto found = memories_.find(area_.memory);
    if (found == memories_.end()) return Verdict::kLocalProtection;
    std::array<iovec, memory::kMaxEntries> remote;
    std::size_t count = 0;
    iovec local{area_.bytes.data(), 0};
    for (; count < area_.ranges; ++count) {
      const ProxyArea::Range& range = area_.range[count];
      remote[count] = {std::bit_cast<void*>(range.addr), range.length};
      local.iov_len += range.length;
    }
    memory::OfferedMemory& process = *found->second;
    const std::span there{remote.data(), count};
    return area_.writes != 0 ? process.write({&local, 1}, there) : process.read({&local, 1}, there);
  }

  ProxyArea& area_;
  UniqueFd socket_;
  int cpu_ = -1;  ///< on which it runs; negative: on any
  std::map<std::uint32_t, std::unique_ptr<memory::OfferedMemory>> memories_;
};

}  // namespace

void serve_memory_proxy(UniqueFd area, UniqueFd socket) {
  void* at = ::mmap(nullptr, sizeof(ProxyArea), PROT_READ | PROT_WRITE, MAP_SHARED, area.get(), 0);
  area.reset();
  if (at != MAP_FAILED) Server(*static_cast<ProxyArea*>(at), std::move(socket)).serve();
  ::_exit(at == MAP_FAILED ? 1 : 0);
}

}  // namespace softhca::engine
