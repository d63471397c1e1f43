// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/refused_requests.hpp"

#include <utility>

#include "daemon/device/adapter/control_clock.hpp"

namespace softhca::control {

void RefusedRequests::report(Journal& journal, const std::string& tenant, pid_t process,
                             const char* call, const std::string& why) {
  if (!limit_.allows(now())) return;
  const auto pid = static_cast<std::uint32_t>(process);
  std::string text = "process " + std::to_string(pid) + ": " + call + ": " + why;
  if (limit_.is_exhausted())
    text += std::string("; further refusals of this ") + opened_ + " are not reported for 10 s";
  journal.add(
      {.kind = "request_refused", .tenant = tenant, .text = std::move(text), .process = pid});
}

}  // namespace softhca::control
