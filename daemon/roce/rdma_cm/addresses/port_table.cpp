// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/port_table.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace softhca::management::rdma_cm {

PortTable::PortTable(PortRange range) : range_(range) {
  range_.first = std::max<std::uint16_t>(range.first, 1);
  if (range_.first > range_.last) return;
  unused_ = BitSet(range_.last - range_.first + 1u);
  for (std::uint32_t i = 0; i < unused_.size(); ++i) unused_.set(i);
}

bool PortTable::in_range(std::uint16_t port) const {
  return port >= range_.first && port <= range_.last;
}

PortTable::Conflict PortTable::conflict(const Port& port, std::uint32_t owner, const Claim& claim) {
  if (claim.reuse && port.exclusive == 0) return {};
  for (const auto& [other, held] : port.claims) {
    if (other == owner || (claim.reuse && held.reuse)) continue;
    if (claim.af_only && held.af_only && claim.at.family != held.at.family) continue;
    if (claim.at.is_any() || held.at.is_any()) return {EADDRNOTAVAIL, other};
    if (claim.at.address == held.at.address) return {EADDRINUSE, other};
  }
  return {};
}

void PortTable::insert(std::uint32_t owner, const Claim& claim) {
  const auto [port, is_new] = ports_.try_emplace(claim.at.port);
  if (is_new && in_range(claim.at.port)) unused_.clear(claim.at.port - range_.first);
  port->second.claims.emplace(owner, claim);
  if (!claim.reuse) ++port->second.exclusive;
}

PortTable::Conflict PortTable::bind(std::uint32_t owner, const Claim& claim) {
  assert(claim.at.port != 0);
  const auto found = ports_.find(claim.at.port);
  if (found != ports_.end())
    if (const Conflict in_way = conflict(found->second, owner, claim); in_way.error != 0)
      return in_way;
  insert(owner, claim);
  return {};
}

std::uint16_t PortTable::bind_any(std::uint32_t owner, Claim claim, std::uint32_t random) {
  if (!unused_.any()) return 0;
  const auto next = unused_.find_next(random % unused_.size());
  claim.at.port = static_cast<std::uint16_t>(range_.first + next.value_or(*unused_.find_first()));
  insert(owner, claim);
  return claim.at.port;
}

PortTable::Conflict PortTable::listen(std::uint32_t owner, std::uint16_t port) {
  Port& found = ports_.at(port);
  Claim& claim = found.claims.at(owner);
  if (!claim.reuse) return {};
  Claim exclusive = claim;
  exclusive.reuse = false;
  if (const Conflict in_way = conflict(found, owner, exclusive); in_way.error != 0) return in_way;
  claim.reuse = false;
  ++found.exclusive;
  return {};
}

void PortTable::change(std::uint32_t owner, const Claim& claim) {
  release(owner, claim.at.port);
  insert(owner, claim);
}

void PortTable::release(std::uint32_t owner, std::uint16_t port) {
  const auto found = ports_.find(port);
  if (found == ports_.end()) return;
  const auto claim = found->second.claims.find(owner);
  if (claim == found->second.claims.end()) return;
  if (!claim->second.reuse) --found->second.exclusive;
  found->second.claims.erase(claim);
  if (!found->second.claims.empty()) return;
  ports_.erase(found);
  if (in_range(port)) unused_.set(port - range_.first);
}

}  // namespace softhca::management::rdma_cm
