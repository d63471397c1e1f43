// SPDX-License-Identifier: Apache-2.0

// A command of a process, as its handler receives it.
#pragma once

#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/roce/rdma_cm/channel.hpp"
#include "daemon/roce/rdma_cm/layouts.hpp"

namespace softhca::management::rdma_cm {

using Body = std::span<const std::byte>;

/// Handlers return 0 or the errno value for the process. A check that fails records why.
struct ChannelCommand {
  Channel& channel;
  Channel* other;  ///< MIGRATE_ID: channel that has the identifier; null: unknown
  Body body;
  ChannelReply& reply;
  Time now;

  /// Copies the body in, as read_body(). Returns 0 or EINVAL.
  template <class T>
  int read(T& to, std::size_t at_least = sizeof(T)) const {
    if (read_body(body, to, at_least)) return 0;
    note_length(at_least);
    return EINVAL;
  }
  /// Reads a socket address of the body, the attribute of this name. Returns 0 or EINVAL.
  int read_address(const char* attribute, const sockaddr_in6& from, SocketAddress& to) const;
  /// Records why the command is refused. Returns `error`, an errno value.
  [[gnu::format(printf, 3, 4)]] int refuse(int error, const char* format, ...) const;
  /// Returns 0 if the identifier is in one of these states, otherwise EINVAL.
  int check_state(const Identifier& id, std::initializer_list<IdentifierState> allowed) const;

 private:
  void note_length(std::size_t at_least) const;
};

}  // namespace softhca::management::rdma_cm
