// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/addresses/multicast.hpp"

#include <algorithm>

#include "abi/control.hpp"

namespace softhca::engine {

bool Multicast::attach(QueuePair& qp, const Gid& group) {
  if (std::find(qp.groups.begin(), qp.groups.end(), group) != qp.groups.end()) return true;
  if (qp.groups.size() == abi::kMaxMulticastGroups) return false;
  const auto others =
      std::count_if(members(group).begin(), members(group).end(),
                    [&](const QueuePair* member) { return member->tenant == qp.tenant; });
  if (others >= abi::kMaxMulticastMembers) return false;
  groups_[group].push_back(&qp);
  qp.groups.push_back(group);
  return true;
}

bool Multicast::detach(QueuePair& qp, const Gid& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || std::erase(found->second, &qp) == 0) return false;
  std::erase(qp.groups, group);
  if (found->second.empty()) groups_.erase(found);
  return true;
}

void Multicast::detach_all(QueuePair& qp) {
  while (!qp.groups.empty()) {
    const Gid group = qp.groups.back();
    detach(qp, group);
  }
}

const std::vector<QueuePair*>& Multicast::members(const Gid& group) const {
  static const std::vector<QueuePair*> kNobody;
  const auto found = groups_.find(group);
  return found != groups_.end() ? found->second : kNobody;
}

}  // namespace softhca::engine
