// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/explain.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "abi/control.hpp"

namespace softhca::provider {
namespace {

enum class Setting : unsigned char {
  kUnread,
  kOff,
  kOn,
  kNoStandardError,  ///< the process began without it, so its number may be that of any file
};

constinit std::atomic<Setting> setting{Setting::kUnread};
constexpr std::size_t kReasonBytes = 400;
static_assert(kReasonBytes > abi::kMaxRefusalText);
/// Empty: none. Threads that do not explain never touch it.
constinit thread_local char reason[kReasonBytes] = "";

/// Writes a line at once, so that lines of threads and processes do not mix. A pipe without reader
/// must not end the program: SIGPIPE of this thread is held back, and dropped.
void write_line(const char* line, std::size_t bytes) {
  sigset_t pipe, pending, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const bool broken = ::write(STDERR_FILENO, line, bytes) < 0 && errno == EPIPE;
  constexpr timespec kNow{};
  if (broken && !was_pending) sigtimedwait(&pipe, nullptr, &kNow);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void read_debug_setting() {
  const char* const wanted = std::getenv("SOFTHCA_DEBUG");
  const bool on = wanted != nullptr && *wanted != '\0' && std::strcmp(wanted, "0") != 0;
  Setting now = setting.load(std::memory_order_relaxed);
  if (now == Setting::kUnread && ::fcntl(STDERR_FILENO, F_GETFD) < 0)
    now = Setting::kNoStandardError;
  if (now != Setting::kNoStandardError) now = on ? Setting::kOn : Setting::kOff;
  setting.store(now, std::memory_order_relaxed);
}

bool is_explaining() { return setting.load(std::memory_order_relaxed) == Setting::kOn; }

int refuse(int error, const char* format, ...) {
  if (!is_explaining()) return error;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  return error;
}

int refuse_lost() {
  return refuse(EIO, "the daemon has ended, or the program has closed the connection to it");
}

int refuse_as_answered(int error, std::span<const std::byte> begin,
                       std::span<const std::byte> rest) {
  if (!is_explaining()) return error;
  std::size_t bytes = 0;
  for (const std::span<const std::byte> part : {begin, rest}) {
    const std::size_t more = std::min(part.size(), sizeof reason - 1 - bytes);
    if (more != 0) std::memcpy(reason + bytes, part.data(), more);
    bytes += more;
  }
  reason[bytes] = '\0';
  return bytes != 0 ? error : refuse(error, "refused by the daemon");
}

void forget_reason() {
  if (is_explaining()) reason[0] = '\0';
}

int failed(const char* verb, int error) {
  if (is_explaining()) {
    const char* const why = reason[0] != '\0' ? reason : strerrordesc_np(error);
    const char* const name = strerrorname_np(error);
    char line[sizeof reason + 80];
    const int length =
        std::snprintf(line, sizeof line, "softhca: %s: %s (%s)\n", verb,
                      why != nullptr ? why : "unknown error", name != nullptr ? name : "?");
    if (length > 0) write_line(line, std::min<std::size_t>(sizeof line - 1, length));
    reason[0] = '\0';
  }
  errno = error;
  return error;
}

}  // namespace softhca::provider
