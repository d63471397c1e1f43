// SPDX-License-Identifier: Apache-2.0

// An Error from errno, for set-up steps that failed in a system call.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/base/expected.hpp"

namespace softhca {

/// Returns "`what`: the meaning of errno", with errno as its code. Call it before errno changes.
inline Error system_error(const std::string& what) {
  const int code = errno;
  return {what + ": " + std::strerror(code), code};
}

}  // namespace softhca
