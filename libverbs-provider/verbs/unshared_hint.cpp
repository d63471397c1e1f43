// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/unshared_hint.hpp"

#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "libverbs-provider/share/proc_file.hpp"

namespace softhca::provider {
namespace {

/// True at the first call.
bool first_time(std::atomic<bool>& said) { return !said.exchange(true, std::memory_order_relaxed); }

}  // namespace

void say_implicit() {
  static std::atomic<bool> said{false};
  if (!first_time(said)) return;
  ::dprintf(STDERR_FILENO,
            "softhca: a memory region of all addresses (implicit on-demand paging) needs "
            "tenant.process_memory = true\n");
}

void say_unshared(std::uint64_t addr, std::uint64_t length, std::span<const abi::MrExtent> extents,
                  int open_error) {
  static std::atomic<bool> said{false};
  const abi::MrExtent* first = nullptr;
  std::uint64_t bytes = 0;
  for (const abi::MrExtent& extent : extents) {
    if (extent.kind != static_cast<std::uint32_t>(abi::ExtentKind::kProcess)) continue;
    if (first == nullptr) first = &extent;
    bytes += extent.length;
  }
  if (first == nullptr || !first_time(said)) return;
  const ProcFile::Use maps(ProcFile::maps());
  if (maps.fd() < 0 || open_error != 0) {
    ::dprintf(
        STDERR_FILENO,
        "softhca: a memory region of %" PRIu64 " bytes at 0x%" PRIx64
        " cannot be registered: /proc/self/%s cannot be opened (%s); mount /proc, and open the "
        "device before the program gives up its rights\n",
        length, addr, maps.fd() < 0 ? "maps" : "mem",
        std::strerror(maps.fd() < 0 ? maps.error() : open_error));
    return;
  }
  ::dprintf(
      STDERR_FILENO,
      "softhca: a memory region of %" PRIu64 " bytes at 0x%" PRIx64 " is refused: %" PRIu64
      " bytes (the first at 0x%" PRIx64
      ") cannot be shared with the daemon. They are part of a page, a stack, a file or shared "
      "memory of others. Register whole pages of private memory, or set "
      "tenant.process_memory = true\n",
      length, addr, bytes, first->addr);
}

}  // namespace softhca::provider
