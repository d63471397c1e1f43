// Access of a user or group to a file of ours, by an access control list (acl(5)): unlike chown(2)
// that takes no capability.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace softhca::control {

/// `user` may do to the file at `path` what the owner's bits of `mode` say, `group` what the
/// group's do, and the file's own group nothing more. False and errno set: EOPNOTSUPP (a file
/// system without lists), or another error; nothing has changed then.
bool set_access_list(const std::string& path, std::optional<uid_t> user, std::optional<gid_t> group,
                     unsigned mode);

/// Leaves the mode alone.
void remove_access_list(const std::string& path);

}  // namespace softhca::control
