// SPDX-License-Identifier: Apache-2.0

// Domains of extended reliable connected service (XRC; InfiniBand specification, annex A14). Shared
// receive queues and targets work together only within a domain. Processes may share a domain,
// which they then name by a file. The control thread owns the domains.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "daemon/base/expected.hpp"
#include "daemon/device/objects/qp_object.hpp"

namespace softhca::control {

struct XrcDomain {
  engine::XrcDomainId id;
  std::unordered_map<std::uint32_t, std::weak_ptr<QpObject>> targets;  ///< by number
};

/// A file as a process names it, and the user of that process. The daemon cannot see the file, and
/// another user may not be allowed to open it.
struct XrcFile {
  TenantId tenant;
  uid_t user = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const XrcFile&) const = default;
};

/// A domain lives as long as a pointer to it exists.
class XrcDomains {
 public:
  /// Makes a new domain without name.
  std::shared_ptr<XrcDomain> make();
  /// Returns the domain that had this id with an earlier adapter. Makes it, if it is not there.
  /// `file`: null if it has no name.
  std::shared_ptr<XrcDomain> restore(engine::XrcDomainId id, const XrcFile* file);
  /// Returns the domain of a file. EAGAIN: the file has none, and `create` is false. EINVAL: it has
  /// one, and `exclusive` is true (as in ib_uverbs of Linux).
  Expected<std::shared_ptr<XrcDomain>> open(const XrcFile& file, bool create, bool exclusive);

 private:
  void forget_gone();

  std::map<XrcFile, std::weak_ptr<XrcDomain>> files_;
  std::unordered_map<std::uint32_t, std::weak_ptr<XrcDomain>> restored_;  ///< by id
  std::size_t forget_at_ = 64;  ///< number of files at which expired domains are dropped
  std::uint32_t next_ = 1;
};

}  // namespace softhca::control
