// Domains of extended reliable connected service (XRC; InfiniBand specification, annex A14): what
// shared receive queues and targets must have in common. A domain may be shared by processes, which
// then name it by a file. Belongs to the control thread.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "daemon/base/expected.hpp"
#include "daemon/control/session/queue_pair.hpp"

namespace softhca::control {

struct XrcDomain {
  engine::XrcDomainId id;
  std::unordered_map<std::uint32_t, std::weak_ptr<Qp>> targets;  ///< by number
};

/// A file as a process names it, and the user of that process: the daemon cannot see the file, and
/// another user may not be allowed to open it.
struct XrcFile {
  TenantId tenant;
  uid_t user = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const XrcFile&) const = default;
};

/// A domain lives as long as somebody has a pointer to it.
class XrcDomains {
 public:
  /// Makes a new domain, which has no name.
  std::shared_ptr<XrcDomain> make();
  /// The domain of a file. EAGAIN: there is none, and not `create`; EINVAL: there is one, and
  /// `exclusive` (as ib_uverbs of Linux has it).
  Expected<std::shared_ptr<XrcDomain>> open(const XrcFile& file, bool create, bool exclusive);

 private:
  void forget_gone();

  std::map<XrcFile, std::weak_ptr<XrcDomain>> files_;
  std::size_t forget_at_ = 64;  ///< those that have gone, when there are so many
  std::uint32_t next_ = 1;
};

}  // namespace softhca::control
