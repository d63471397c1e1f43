// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/unshared_hint.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/share/proc_file.hpp"

namespace softhca::provider {
namespace {

/// Explains the failure of the verb (explain.hpp). Else reports it, at the first call.
[[gnu::format(printf, 2, 3)]] void say(std::atomic<bool>& said, const char* format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  refuse(EOPNOTSUPP, "%s", text);
  if (is_explaining() || said.exchange(true, std::memory_order_relaxed)) return;
  ::dprintf(STDERR_FILENO, "softhca: %s\n", text);
}

}  // namespace

void say_implicit() {
  static std::atomic<bool> said{false};
  say(said,
      "a memory region of all addresses (implicit on-demand paging) needs "
      "tenant.process_memory = true");
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
  if (first == nullptr) return;
  const ProcFile::Use maps(ProcFile::maps());
  if (maps.fd() < 0 || open_error != 0) {
    say(said,
        "a memory region of %" PRIu64 " bytes at 0x%" PRIx64
        " cannot be registered: /proc/self/%s cannot be opened (%s); mount /proc, and open the "
        "device before the program gives up its rights",
        length, addr, maps.fd() < 0 ? "maps" : "mem",
        std::strerror(maps.fd() < 0 ? maps.error() : open_error));
    return;
  }
  say(said,
      "a memory region of %" PRIu64 " bytes at 0x%" PRIx64 " is refused: %" PRIu64
      " bytes (the first at 0x%" PRIx64
      ") cannot be shared with the daemon. They are part of a page, a stack, a file or shared "
      "memory of others. Register whole pages of private memory, or set "
      "tenant.process_memory = true",
      length, addr, bytes, first->addr);
}

}  // namespace softhca::provider
