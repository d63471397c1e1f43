// SPDX-License-Identifier: Apache-2.0

// Brings the requests of a process from its socket to its session.
#pragma once

#include "daemon/device/session/device_session.hpp"
#include "daemon/frontend/unix/sockets/socket_peer.hpp"

namespace softhca::control {

/// Has waiting requests answered, a bounded number of them, or the one continued that the session
/// has begun. Returns false if the session is over. `peer`: the one of the session.
bool serve_session(const SocketPeer& peer, DeviceSession& session);

}  // namespace softhca::control
