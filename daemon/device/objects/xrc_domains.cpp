// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/xrc_domains.hpp"

#include <algorithm>
#include <cerrno>

namespace softhca::control {

std::shared_ptr<XrcDomain> XrcDomains::make() {
  auto domain = std::make_shared<XrcDomain>();
  domain->id = engine::XrcDomainId(next_++);
  return domain;
}

std::shared_ptr<XrcDomain> XrcDomains::restore(engine::XrcDomainId id, const XrcFile* file) {
  auto domain = restored_[id.value].lock();
  if (domain == nullptr) {
    domain = std::make_shared<XrcDomain>();
    domain->id = id;
    restored_[id.value] = domain;
    next_ = std::max(next_, id.value + 1);
  }
  if (file != nullptr) files_[*file] = domain;
  return domain;
}

Expected<std::shared_ptr<XrcDomain>> XrcDomains::open(const XrcFile& file, bool create,
                                                      bool exclusive) {
  if (const auto known = files_.find(file); known != files_.end()) {
    if (auto domain = known->second.lock()) {
      if (exclusive) return Error{"the file has a domain", EINVAL};
      return domain;
    }
    files_.erase(known);
  }
  if (!create) return Error{"the file has no domain", EAGAIN};
  auto domain = make();
  if (files_.size() >= forget_at_) forget_gone();
  files_[file] = domain;
  return domain;
}

void XrcDomains::forget_gone() {
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
  forget_at_ = 2 * files_.size() + 64;
}

}  // namespace softhca::control
