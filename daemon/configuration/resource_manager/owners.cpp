// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/owners.hpp"

#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <charconv>
#include <optional>

namespace softhca::configuration {
namespace {

/// Parses a number. The greatest one is not a valid id: for chown() it means "leave as it is".
std::optional<unsigned> as_number(const std::string& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == kNoUser)
    return std::nullopt;
  return value;
}

}  // namespace

Expected<uid_t> user_id(const std::string& name) {
  if (name.empty()) return kNoUser;
  if (const auto number = as_number(name)) return uid_t{*number};
  if (const passwd* entry = getpwnam(name.c_str())) return entry->pw_uid;
  return Error{"no user '" + name + "' on this system: name an existing user or a number", ENOENT};
}

Expected<gid_t> group_id(const std::string& name) {
  if (name.empty()) return kNoGroup;
  if (const auto number = as_number(name)) return gid_t{*number};
  if (const group* entry = getgrnam(name.c_str())) return entry->gr_gid;
  return Error{"no group '" + name + "' on this system: name an existing group or a number",
               ENOENT};
}

}  // namespace softhca::configuration
