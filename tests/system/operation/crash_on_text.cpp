// SPDX-License-Identifier: Apache-2.0

// Preloaded into a daemon: a thread that copies or receives kCrashText crashes. So a tenant's
// message brings down the engine, and a request the control thread, always at the same place.
#include <dlfcn.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>

#include "tests/system/operation/crash_text.hpp"

namespace {

int* volatile nowhere = nullptr;

void look_at(const void* data, std::size_t bytes) {
  if (bytes < sizeof kCrashText - 1 || bytes > 4096) return;
  if (::memmem(data, bytes, kCrashText, sizeof kCrashText - 1) == nullptr) return;
  *nowhere = 0;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define REPLACES extern "C" [[gnu::visibility("default")]]

/// By which the engine copies from one program to another.
REPLACES void* memmove(void* to, const void* from, std::size_t n) {
  static const auto move = next<void*(void*, const void*, std::size_t)>("memmove");
  look_at(from, n);
  return move(to, from, n);
}

REPLACES ssize_t recvmsg(int fd, msghdr* into, int how) {
  static const auto receive = next<ssize_t(int, msghdr*, int)>("recvmsg");
  const ssize_t got = receive(fd, into, how);
  if (got > 0) look_at(into->msg_iov->iov_base, static_cast<std::size_t>(got));
  return got;
}
