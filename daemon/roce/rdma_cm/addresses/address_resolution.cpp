// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/address_resolution.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>

#include "daemon/base/address_text.hpp"

namespace softhca::management::rdma_cm {

namespace {

constexpr Duration kLongestResolve = std::chrono::hours(1);
constexpr unsigned kAtOnce = 32;  // most expired identifiers in one call

}  // namespace

int AddressResolution::resolve_ip(const ChannelCommand& command) {
  rdma_ucm_resolve_ip body;
  if (const int error = command.read(body)) return error;
  SocketAddress to;
  if (const int error = command.read_address("dst_addr", body.dst_addr, to)) return error;
  SocketAddress from = any_address(to.family);
  from.scope = to.scope;
  if (body.src_addr.sin6_family != AF_UNSPEC)
    if (const int error = command.read_address("src_addr", body.src_addr, from)) return error;
  Identifier* id = nullptr;
  if (const int error = identifiers_.find_of(command, body.id, id)) return error;
  if (const int error = events_.check_room(command, *id)) return error;
  if (const int error = command.check_state(*id, {IdentifierState::kIdle, IdentifierState::kBound}))
    return error;
  if (id->state == IdentifierState::kIdle)
    if (const int error = binding_.bind(command, *id, from)) return error;
  if (id->local.family != to.family)
    return command.refuse(EINVAL, "dst_addr of family %u, but the identifier is bound to family %u",
                          to.family, id->local.family);

  id->remote = to;
  if (const int error = choose_source(command, *id)) {
    id->remote = any_address(to.family);
    return error;
  }
  id->state = IdentifierState::kResolvingAddress;
  if (id->remote.address.is_multicast() || addresses_.has(id->remote.address)) {
    found(*id);
    return 0;
  }
  const auto wait = std::clamp<Duration>(std::chrono::milliseconds(body.timeout_ms),
                                         std::chrono::milliseconds(1), kLongestResolve);
  id->resolution.deadline = command.now + wait;
  waiting_.emplace(id->resolution.deadline, id->number);
  environment_.resolve(id->resolution.source, id->remote.address, ResolveCookie(id->cookie()));
  return 0;
}

/// Returns ENETUNREACH. REQUIRES: no address of the tenant is a source for id.remote.
int AddressResolution::refuse_unreachable(const ChannelCommand& command,
                                          const Identifier& id) const {
  const bool ipv4 = id.remote.address.is_ipv4();
  const std::string to = address_text(id.remote.address);
  if (!id.source)
    return command.refuse(ENETUNREACH, "no route to dst_addr %s: the tenant has %s", to.c_str(),
                          environment_.networks(ipv4).c_str());
  const std::string from = address_text(*id.source);
  if (id.source->is_ipv4() != ipv4)
    return command.refuse(ENETUNREACH,
                          "dst_addr %s and the identifier's address %s are of two "
                          "families",
                          to.c_str(), from.c_str());
  return command.refuse(ENETUNREACH, "the identifier's address %s is no longer the tenant's",
                        from.c_str());
}

/// Chooses the source for id.remote. Replaces a loopback or "any" address in id.remote by an
/// address of the tenant. Returns 0 or ENETUNREACH.
int AddressResolution::choose_source(const ChannelCommand& command, Identifier& id) {
  SocketAddress& to = id.remote;
  if (to.is_any() || addresses_.is_loopback(to)) {
    const TenantGid* own = addresses_.find_loopback(to);
    if (id.source && id.source->is_ipv4() == to.address.is_ipv4())
      own = addresses_.find(*id.source);
    if (own == nullptr) return refuse_unreachable(command, id);
    to.address = own->gid;
  }
  if (!id.source && addresses_.has(to.address)) {
    id.resolution.source = to.address;
    return 0;
  }
  const std::optional<Gid> source = id.source ? id.source : environment_.source_for(to.address);
  if (!source || source->is_ipv4() != to.address.is_ipv4() || !addresses_.has(*source))
    return refuse_unreachable(command, id);
  id.resolution.source = *source;
  return 0;
}

void AddressResolution::resolved(ResolveCookie cookie, bool reachable) {
  Identifier* const id = identifiers_.find_cookie(cookie.value);
  if (id == nullptr || id->state != IdentifierState::kResolvingAddress) return;
  if (reachable)
    found(*id);
  else
    not_found(*id);
}

void AddressResolution::expire(Time now) {
  for (unsigned n = 0; n < kAtOnce && !waiting_.empty() && waiting_.begin()->first <= now; ++n)
    not_found(*identifiers_.find(waiting_.begin()->second.value));
}

void AddressResolution::restore(const Identifier& id) {
  if (id.state != IdentifierState::kResolvingAddress) return;
  waiting_.emplace(id.resolution.deadline, id.number);
  environment_.resolve(id.resolution.source, id.remote.address, ResolveCookie(id.cookie()));
}

void AddressResolution::stop(Identifier& id) {
  waiting_.erase({id.resolution.deadline, id.number});
  id.resolution.deadline = kNever;
}

void AddressResolution::found(Identifier& id) {
  stop(id);
  id.source = id.local.address = id.resolution.source;
  ports_.claim_changed(id);
  id.state = IdentifierState::kAddressResolved;
  events_.queue(id, EventType::kAddrResolved);
}

void AddressResolution::not_found(Identifier& id) {
  stop(id);
  id.state = IdentifierState::kBound;
  events_.queue(id, EventType::kAddrError, -ETIMEDOUT);
}

void AddressResolution::addresses_changed() {
  identifiers_.change_each([&](Identifier& id) {
    const bool gone = id.source && !addresses_.has(*id.source);
    if (gone && !id.address_gone) events_.queue(id, EventType::kAddrChange);
    id.address_gone = gone;
  });
}

}  // namespace softhca::management::rdma_cm
