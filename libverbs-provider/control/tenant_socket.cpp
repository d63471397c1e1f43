// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/control/tenant_socket.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/session.hpp"
#include "libverbs-provider/explain.hpp"

namespace softhca::provider {
namespace {

/// Returns the level in the environment; null: none.
const char* wanted_level() {
  const char* level = std::getenv("SOFTHCA_LEVEL");
  return level != nullptr && *level != '\0' ? level : nullptr;
}

}  // namespace

void choose_socket(const char* tenants, char (&path)[kSocketPathBytes]) {
  const char* level = wanted_level();
  const char* slash = std::strrchr(tenants, '/');
  if (level != nullptr && std::strchr(level, '/') == nullptr && slash != nullptr) {
    const int folder = static_cast<int>(slash - tenants);
    const int length = std::snprintf(path, sizeof path, "%.*s/%s.socket", folder, tenants, level);
    if (length > 0 && static_cast<std::size_t>(length) < sizeof path && ::access(path, W_OK) == 0)
      return;
  }
  std::memcpy(path, tenants, std::strlen(tenants) + 1);
}

int make_hello(Hello& hello, std::uint32_t device, abi::VersionRange versions) {
  abi::HelloWithLevel& named = hello.body.named;
  hello.body = {{{abi::kSessionMagic, versions}, {}}, device, 0};
  hello.bytes = sizeof named.hello;
  if (const char* level = wanted_level()) {
    if (std::strlen(level) >= sizeof named.level)
      return refuse(EINVAL, "SOFTHCA_LEVEL has more than %zu bytes", sizeof named.level - 1);
    std::memcpy(named.level, level, std::strlen(level));
    hello.bytes = sizeof named;
  }
  // An older daemon knows the shorter forms only, and has one device.
  if (device != 0) hello.bytes = sizeof hello.body;
  return 0;
}

void explain_refusal(abi::VersionRange answer, abi::VersionRange versions) {
  char why[abi::kMismatchBytes];
  abi::explain_mismatch(abi::refused_range(answer), versions, why);
  refuse(EPROTO, "%s", why);
  static std::atomic<bool> said{false};
  if (is_explaining() || said.exchange(true, std::memory_order_relaxed)) return;
  ::dprintf(STDERR_FILENO, "softhca: the device cannot be opened: %s\n", why);
}

int greet(ControlChannel& control, std::uint32_t device, abi::HelloReply& reply, ReceivedFds& fds,
          abi::VersionRange versions) {
  Hello hello;
  if (const int error = make_hello(hello, device, versions)) return error;
  union {
    abi::HelloReply reply;
    abi::VersionRange refusal;
  } answer{};
  const iovec body{&hello.body, hello.bytes};
  const int error = control.call(abi::Operation::kHello, {&body, 1},
                                 std::as_writable_bytes(std::span{&answer.reply, 1}), fds);
  if (error == EPROTO && !control.lost()) explain_refusal(answer.refusal, versions);
  if (error != 0) return error;
  reply = answer.reply;
  reply.version = abi::answered_version(versions, reply.version);
  return reply.version != 0 ? 0 : EPROTO;
}

}  // namespace softhca::provider
