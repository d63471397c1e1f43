// SPDX-License-Identifier: Apache-2.0

// The requests of one connection of a process that are refused, as events for the operator.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/device/adapter/journal.hpp"

namespace softhca::control {

class RefusedRequests {
 public:
  /// `opened`: what the process has opened by the connection, such as "event channel".
  explicit RefusedRequests(const char* opened) : opened_(opened) {}

  /// Adds an event, at most 8 in ten seconds. `call`: the function by which programs know the
  /// request.
  void report(Journal& journal, const std::string& tenant, pid_t process, const char* call,
              const std::string& why);

 private:
  const char* opened_;
  ComplaintLimit limit_{8};
};

}  // namespace softhca::control
