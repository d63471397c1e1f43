// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/access_list.hpp"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace softhca::control {
namespace {

constexpr const char* kName = "system.posix_acl_access";

using Entry = posix_acl_xattr_entry;

Entry entry(unsigned tag, unsigned mode, std::uint32_t id = ACL_UNDEFINED_ID) {
  return {.e_tag = htole16(static_cast<std::uint16_t>(tag)),
          .e_perm = htole16(static_cast<std::uint16_t>(mode & 7)),
          .e_id = htole32(id)};
}

}  // namespace

bool set_access_list(const std::string& path, std::optional<uid_t> user, std::optional<gid_t> group,
                     unsigned mode) {
  const unsigned of_owner = mode >> 6, of_group = mode >> 3;
  std::vector<Entry> entries;  // in the order of their tags, as the kernel requires
  entries.push_back(entry(ACL_USER_OBJ, of_owner));
  if (user) entries.push_back(entry(ACL_USER, of_owner, *user));
  entries.push_back(entry(ACL_GROUP_OBJ, group ? 0 : of_group));
  if (group) entries.push_back(entry(ACL_GROUP, of_group, *group));
  entries.push_back(entry(ACL_MASK, of_group | (user ? of_owner : 0)));
  entries.push_back(entry(ACL_OTHER, mode));
  const posix_acl_xattr_header header{.a_version = htole32(POSIX_ACL_XATTR_VERSION)};
  std::vector<std::byte> value(sizeof header + entries.size() * sizeof(Entry));
  std::memcpy(value.data(), &header, sizeof header);
  std::memcpy(value.data() + sizeof header, entries.data(), entries.size() * sizeof(Entry));
  return ::setxattr(path.c_str(), kName, value.data(), value.size(), 0) == 0;
}

void remove_access_list(const std::string& path) { ::removexattr(path.c_str(), kName); }

}  // namespace softhca::control
