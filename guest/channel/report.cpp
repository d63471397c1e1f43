// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/report.hpp"

#include <time.h>

#include <cstdio>

namespace softhca::guest {

void Report::operator()(const std::string& message) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t least = message == latest_ ? 60 : 1;
  if (now.tv_sec < at_ + least) {
    ++left_out_;
    return;
  }
  at_ = now.tv_sec;
  latest_ = message;
  const std::uint64_t before = std::exchange(left_out_, 0);
  const std::string more =
      before == 0 ? "" : " (" + std::to_string(before) + " messages before were left out)";
  std::fprintf(stderr, "%s: %s%s\n", program_.c_str(), message.c_str(), more.c_str());
}

}  // namespace softhca::guest
