// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/serve_session.hpp"

#include "daemon/device/session/session_restorer.hpp"
#include "daemon/frontend/unix/sockets/message.hpp"

namespace softhca::control {

bool serve_session(const SocketPeer& peer, DeviceSession& session, SecondReply& second) {
  if (session.is_waiting()) return false;  // only the peer's close makes the socket ready then
  if (session.has_more()) {
    if (!session.go_on()) return false;
    if (!session.has_more()) take_record(peer.socket());
    return true;
  }
  return serve_records(peer.socket(), [&](std::span<const std::byte> record) {
    const bool unread = has_unread(peer.socket());
    bool is_late = false;
    if (SessionRestorer restorer(session); restorer.expects_repetition()) {
      // The process has sent the next request, so it has had the reply to this one.
      if (waiting_bytes(peer.socket()) > record.size()) {
        restorer.skip_repetition();
        return Served::kNext;
      }
      second.set(true);
    } else if (unread) {
      // A process waits for each reply. Replies that pile up would hold descriptors in flight,
      // which the kernel limits per user.
      if (!second.may_wait) return Served::kEnd;
      is_late = true;
    } else {
      second.set(false);
    }
    if (!session.answer(record)) return Served::kEnd;
    if (is_late && !session.has_more()) second.set(false);
    return session.wants_channel() || session.has_more() ? Served::kLater : Served::kNext;
  });
}

}  // namespace softhca::control
