// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/addresses/socket_address.hpp"

#include <arpa/inet.h>

#include <cstring>

namespace softhca::management::rdma_cm {

bool SocketAddress::is_loopback() const {
  if (address.is_ipv4()) return address.ipv4() >> 24 == IN_LOOPBACKNET;
  Gid loopback;
  loopback.bytes[15] = 1;
  return address == loopback;
}

SocketAddress any_address(sa_family_t family) {
  SocketAddress any{.family = family};
  if (family == AF_INET) any.address = Gid::from_ipv4(INADDR_ANY);
  return any;
}

std::optional<SocketAddress> from_sockaddr(const sockaddr_in6& from) {
  SocketAddress to{.family = from.sin6_family};
  if (from.sin6_family == AF_INET) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, &from, sizeof ipv4);
    to.port = ntohs(ipv4.sin_port);
    to.address = Gid::from_ipv4(ntohl(ipv4.sin_addr.s_addr));
    return to;
  }
  if (from.sin6_family != AF_INET6) return std::nullopt;
  to.port = ntohs(from.sin6_port);
  std::memcpy(to.address.bytes.data(), &from.sin6_addr, to.address.bytes.size());
  to.flow_info = from.sin6_flowinfo;
  to.scope = from.sin6_scope_id;
  return to;
}

sockaddr_in6 to_sockaddr(const SocketAddress& from) {
  sockaddr_in6 to{};
  if (from.family == AF_INET) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(from.port);
    ipv4.sin_addr.s_addr = htonl(from.address.ipv4());
    std::memcpy(&to, &ipv4, sizeof ipv4);
  } else if (from.family == AF_INET6) {
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(from.port);
    to.sin6_flowinfo = from.flow_info;
    to.sin6_scope_id = from.scope;
    std::memcpy(&to.sin6_addr, from.address.bytes.data(), from.address.bytes.size());
  }
  return to;
}

}  // namespace softhca::management::rdma_cm
