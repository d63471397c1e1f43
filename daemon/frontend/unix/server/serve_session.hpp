// SPDX-License-Identifier: Apache-2.0

// Brings the requests of a process from its socket to its session.
#pragma once

#include <functional>
#include <utility>

#include "daemon/device/session/device_session.hpp"
#include "daemon/frontend/unix/sockets/socket_peer.hpp"

namespace softhca::control {

/// Whether a reply that the process has had already may wait in its socket. The process skips it.
struct SecondReply {
  bool may_wait = false;
  std::function<void()> record{};  ///< writes the change to the record of the connection

  void set(bool may) {
    if (std::exchange(may_wait, may) != may) record();
  }
};

/// Has waiting requests answered, a bounded number of them, or the one continued that the session
/// has begun. Returns false if the session is over. `peer`: the one of the session.
bool serve_session(const SocketPeer& peer, DeviceSession& session, SecondReply& second);

}  // namespace softhca::control
