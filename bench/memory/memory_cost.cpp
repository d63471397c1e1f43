// SPDX-License-Identifier: Apache-2.0

// softhca-memory-cost: the cost of an access to unshared memory of a process, directly by the
// caller and through the daemon's proxy process. For each size, it measures both in turns, so that
// other load affects both.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/engine/memory/memory_proxy.hpp"
#include "daemon/tenant_memory/memory_proxy_process.hpp"
#include "daemon/tenant_memory/offered_memory.hpp"

namespace {

using namespace softhca;
using Clock = std::chrono::steady_clock;

constexpr unsigned kTurns = 51;
constexpr unsigned kAccesses = 200;  // in a turn

/// Returns the end of a socket on which this process has offered its memory.
UniqueFd offer() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const UniqueFd memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  const std::byte byte{};
  const int passed = memory.get();
  send_with_descriptors(theirs.get(), {&byte, 1}, {&passed, 1});
  return ours;
}

Outcome start(int area, int socket) {
  if (::fork() == 0) {
    constexpr int kArea = 200, kSocket = 201;
    ::dup2(area, kArea);
    ::dup2(socket, kSocket);
    ::close_range(3, kArea - 1, 0);
    memory::serve_memory_proxy(UniqueFd(kArea), UniqueFd(kSocket));
  }
  return {};
}

/// Returns the microseconds of an access.
double time_of(memory::ProcessMemory& process, std::vector<std::byte>& here,
               std::vector<std::byte>& there, bool writes) {
  const auto begin = Clock::now();
  for (unsigned i = 0; i < kAccesses; ++i) {
    iovec local{here.data(), here.size()};
    iovec remote{there.data(), there.size()};
    const Verdict done =
        writes ? process.write({&local, 1}, {&remote, 1}) : process.read({&local, 1}, {&remote, 1});
    if (done != Verdict::kOk) std::fprintf(stderr, "an access failed\n"), ::_exit(1);
  }
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kAccesses;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

int main() {
  memory::OfferedMemory itself(offer());
  engine::MemoryCounters counters;
  engine::MemoryWaits waits(0);
  const auto proxy = engine::MemoryProxy::create(start, {counters, waits, [](Duration) {}});
  const UniqueFd socket = offer();
  const auto added = proxy ? engine::MemoryProxy::add(*proxy, socket.get()) : proxy.error();
  if (!added) return std::fprintf(stderr, "%s\n", added.error().message.c_str()), 1;
  std::printf("bytes    read itself    by the process    write itself    by the process, us\n");
  for (const std::size_t bytes : {8u, 4096u, 65536u, 1048576u}) {
    std::vector<std::byte> here(bytes), there(bytes);
    std::array<std::vector<double>, 4> times;
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      times[0].push_back(time_of(itself, here, there, false));
      times[1].push_back(time_of(**added, here, there, false));
      times[2].push_back(time_of(itself, here, there, true));
      times[3].push_back(time_of(**added, here, there, true));
    }
    std::printf("%7zu %12.2f %17.2f %15.2f %17.2f\n", bytes, median(times[0]), median(times[1]),
                median(times[2]), median(times[3]));
  }
}
