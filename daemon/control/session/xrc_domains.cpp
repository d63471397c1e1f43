#include "daemon/control/session/xrc_domains.hpp"

#include <cerrno>

namespace softhca::control {

std::shared_ptr<XrcDomain> XrcDomains::make() {
  auto domain = std::make_shared<XrcDomain>();
  domain->id = engine::XrcDomainId(next_++);
  return domain;
}

Expected<std::shared_ptr<XrcDomain>> XrcDomains::open(const XrcFile& file, bool create,
                                                      bool exclusive) {
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = files_.find(file); known != files_.end()) {
    if (exclusive) return Error{"the file has a domain", EINVAL};
    return known->second.lock();
  }
  if (!create) return Error{"the file has no domain", EAGAIN};
  auto domain = make();
  files_[file] = domain;
  return domain;
}

}  // namespace softhca::control
