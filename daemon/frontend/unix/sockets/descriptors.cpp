// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "daemon/base/system_error.hpp"

namespace softhca::control {

Outcome raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return system_error("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return system_error("setrlimit");
  return {};
}

bool SpareDescriptor::refuse_one(int listener, BlockingCalls& calls, const std::string& owner) {
  if (!spare_) take();
  if (!spare_) return false;
  spare_.reset();
  UniqueFd refused(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  const bool any(refused);
  if (any)
    calls.close(std::move(refused), owner);  // the next call takes the spare one again
  else
    take();
  return any;
}

void SpareDescriptor::take() { spare_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace softhca::control
