// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/serve_session.hpp"

#include "daemon/frontend/unix/sockets/message.hpp"

namespace softhca::control {

bool serve_session(const SocketPeer& peer, DeviceSession& session) {
  if (session.is_waiting()) return false;  // only the peer's close makes the socket ready then
  if (session.has_more()) {
    if (!session.go_on()) return false;
    if (!session.has_more()) take_record(peer.socket());
    return true;
  }
  return serve_records(peer.socket(), [&](std::span<const std::byte> record) {
    // A process waits for each reply. Replies that pile up would hold descriptors in flight, which
    // the kernel limits per user.
    if (has_unread(peer.socket()) || !session.answer(record)) return Served::kEnd;
    return session.wants_channel() || session.has_more() ? Served::kLater : Served::kNext;
  });
}

}  // namespace softhca::control
