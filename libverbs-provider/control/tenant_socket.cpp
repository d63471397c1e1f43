// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/control/tenant_socket.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/session.hpp"

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

int make_hello(Hello& hello) {
  hello.body = {{abi::kSessionMagic, abi::kAbiVersion, 0}, {}};
  hello.bytes = sizeof hello.body.hello;
  const char* level = wanted_level();
  if (level == nullptr) return 0;
  if (std::strlen(level) >= sizeof hello.body.level) return EINVAL;
  std::memcpy(hello.body.level, level, std::strlen(level));
  hello.bytes = sizeof hello.body;
  return 0;
}

}  // namespace softhca::provider
