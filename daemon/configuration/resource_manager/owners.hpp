// SPDX-License-Identifier: Apache-2.0

// Users and groups by name or number.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/base/expected.hpp"

namespace softhca::configuration {

/// The id of an empty name: the owner does not change.
inline constexpr uid_t kNoUser = static_cast<uid_t>(-1);
inline constexpr gid_t kNoGroup = static_cast<gid_t>(-1);

/// Return the id of a name or number. Errors: this system has no such name. A number need not have
/// a name.
Expected<uid_t> user_id(const std::string& name);
Expected<gid_t> group_id(const std::string& name);

}  // namespace softhca::configuration
