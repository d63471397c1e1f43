// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/memory_proxy_process.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/tenant_memory/offered_memory.hpp"
#include "daemon/tenant_memory/proxy_area.hpp"

namespace softhca::memory {
namespace {

// It would take the engine 20 us and more to wake the process for each access of a busy tenant. So
// the process stays awake for some time, and polls.
constexpr long kNap = 20'000;  // ns
constexpr int kNaps = 50;

class Server {
 public:
  Server(ProxyArea& area, UniqueFd socket) : area_(area), socket_(std::move(socket)) {
    ::prctl(PR_SET_TIMERSLACK, 1);
  }

  void serve() {
    constexpr auto kLong = std::chrono::hours(1);
    for (;;) {
      const std::uint32_t seen = area_.wake.load(std::memory_order_acquire);
      // In this order: the message about a memory comes before accesses to it.
      const bool asked = is_asked();
      if (!take_messages()) return;
      if (asked) {
        answer();
        naps_ = 0;
        continue;
      }
      if (naps_ < kNaps) {
        ++naps_;
        nap();
        continue;
      }
      area_.slept.store(seen, std::memory_order_seq_cst);
      if (!is_asked()) futex_wait(area_.wake, seen, kLong);
    }
  }

 private:
  /// Takes messages. False: the daemon is done with this process.
  bool take_messages() {
    const std::uint32_t sent = area_.messages.load(std::memory_order_acquire);
    if (sent == area_.taken.load(std::memory_order_relaxed)) return true;
    area_.working.store(1, std::memory_order_relaxed);
    for (;;) {
      ProxyMessage message{};
      std::array<UniqueFd, 1> fds;
      const ssize_t got = receive_with_descriptors(
          socket_.get(), std::as_writable_bytes(std::span{&message, 1}), fds, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) {
        area_.taken.store(sent, std::memory_order_relaxed);
        area_.working.store(0, std::memory_order_relaxed);
        return true;
      }
      if (got != sizeof message) return false;
      if (message.adds == 0)
        memories_.erase(message.memory);
      else
        memories_[message.memory] = std::make_unique<OfferedMemory>(std::move(fds[0]));
    }
  }

  bool is_asked() const {
    return area_.asked.load(std::memory_order_seq_cst) !=
           area_.done.load(std::memory_order_relaxed);
  }

  void answer() {
    const std::uint32_t number = area_.done.load(std::memory_order_relaxed);
    const std::uint32_t place = area_.order[number % ProxyArea::kPlaces] % ProxyArea::kPlaces;
    const long sleeps = sleeps_so_far();
    area_.working.store(1, std::memory_order_relaxed);
    area_.access[place].ok = run(area_.access[place], area_.bytes[place]) == Verdict::kOk;
    area_.kept_waiting = sleeps_so_far() != sleeps ? 1 : 0;
    area_.working.store(0, std::memory_order_relaxed);
    area_.done.store(number + 1, std::memory_order_seq_cst);
    if (area_.waiting.load(std::memory_order_seq_cst) != 0) futex_wake(area_.done);
  }

  static void nap() {
    const timespec time{.tv_sec = 0, .tv_nsec = kNap};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  }

  /// Returns how often this process has gone to sleep, without the times that it lost its
  /// processor.
  static long sleeps_so_far() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  }

  Verdict run(const ProxyArea::Access& access, std::span<std::byte> bytes) {
    const auto found = memories_.find(access.memory);
    if (found == memories_.end()) return Verdict::kLocalProtection;
    OfferedMemory& process = *found->second;
    if (access.kind == ProxyArea::kAtomic) return run_atomic(process, access.range[0].addr, bytes);
    std::array<iovec, kMaxEntries> remote;
    std::size_t count = 0;
    iovec local{bytes.data(), 0};
    for (; count < std::min<std::size_t>(access.ranges, remote.size()); ++count) {
      const ProxyArea::Range& range = access.range[count];
      if (range.length > bytes.size() - local.iov_len) return Verdict::kLocalProtection;
      remote[count] = {std::bit_cast<void*>(range.addr), range.length};
      local.iov_len += range.length;
    }
    const std::span there{remote.data(), count};
    return access.kind == ProxyArea::kWrite ? process.write({&local, 1}, there)
                                            : process.read({&local, 1}, there);
  }

  static Verdict run_atomic(OfferedMemory& process, std::uint64_t addr,
                            std::span<std::byte> bytes) {
    ProxyArea::Atomic operands;
    std::memcpy(&operands, bytes.data(), sizeof operands);
    const auto operation = static_cast<AtomicOp>(operands.operation);
    const Verdict done =
        process.atomic(addr, operation, operands.compare_add, operands.swap, operands.original);
    std::memcpy(bytes.data(), &operands, sizeof operands);
    return done;
  }

  ProxyArea& area_;
  UniqueFd socket_;
  int naps_ = 0;  ///< since the last access
  std::map<std::uint32_t, std::unique_ptr<OfferedMemory>> memories_;
};

}  // namespace

void serve_memory_proxy(UniqueFd area, UniqueFd socket, std::uint64_t offset) {
  void* at = ::mmap(nullptr, sizeof(ProxyArea), PROT_READ | PROT_WRITE, MAP_SHARED, area.get(),
                    static_cast<off_t>(offset));
  area.reset();
  if (at != MAP_FAILED) Server(*static_cast<ProxyArea*>(at), std::move(socket)).serve();
  ::_exit(at == MAP_FAILED ? 1 : 0);
}

}  // namespace softhca::memory
