// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/channel_command.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <optional>
#include <string>

namespace softhca::management::rdma_cm {

int ChannelCommand::refuse(int error, const char* format, ...) const {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  reply.refusal = text;
  return error;
}

void ChannelCommand::note_length(std::size_t at_least) const {
  refuse(EINVAL, "a command of %zu bytes, at least %zu", body.size(), at_least);
}

int ChannelCommand::read_address(const char* attribute, const sockaddr_in6& from,
                                 SocketAddress& to) const {
  const std::optional<SocketAddress> address = from_sockaddr(from);
  if (!address)
    return refuse(EINVAL, "%s of family %u, must be AF_INET (%u) or AF_INET6 (%u)", attribute,
                  from.sin6_family, AF_INET, AF_INET6);
  to = *address;
  return 0;
}

int ChannelCommand::check_state(const Identifier& id,
                                std::initializer_list<IdentifierState> allowed) const {
  if (std::ranges::find(allowed, id.state) != allowed.end()) return 0;
  std::string names;
  for (const IdentifierState state : allowed)
    names += (names.empty() ? "" : " or ") + std::string(name_of(state));
  return refuse(EINVAL, "the identifier is in state %s, must be in %s", name_of(id.state),
                names.c_str());
}

}  // namespace softhca::management::rdma_cm
