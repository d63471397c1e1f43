// SPDX-License-Identifier: Apache-2.0

// Access of a user or group to a file of the daemon, by an access control list (acl(5)). Unlike
// chown(2), it needs no capability.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace softhca::control {

/// Gives `user` the rights of the owner's bits of `mode`, and `group` those of the group's bits. If
/// `group` is given, the file's own group has no rights. Returns false with errno: EOPNOTSUPP (a
/// file system without lists), or another error. Nothing has changed then.
bool set_access_list(const std::string& path, std::optional<uid_t> user, std::optional<gid_t> group,
                     unsigned mode);

/// Removes the list; does not change the mode.
void remove_access_list(const std::string& path);

}  // namespace softhca::control
