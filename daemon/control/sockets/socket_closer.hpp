// Closes Unix sockets on threads of its own. What a peer has sent and nobody has received goes with
// a socket, descriptors that were passed among it: closing the last of these may wait for as long
// as the peer likes (a TCP socket with SO_LINGER, a file of a server that does not answer). Linux
// before 6.10 also takes away what waits in others' sockets while it closes one (unix_gc).
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

/// Used by the control thread; its threads do nothing but close.
class SocketCloser {
 public:
  SocketCloser();
  /// Waits for no close that does not come back.
  ~SocketCloser();
  SocketCloser(const SocketCloser&) = delete;
  SocketCloser& operator=(const SocketCloser&) = delete;

  /// The socket is closed later. `owner`: name of the tenant whose processes may have sent
  /// something to it; empty: the operator. REQUIRES: no loop watches the socket.
  void close(UniqueFd socket, const std::string& owner);

  /// True: closing a socket of the owner has taken 100 ms and has not ended, or 4096 of its sockets
  /// wait. It is to have no more until this changes.
  bool stuck(const std::string& owner) const;
  std::size_t waiting() const;  ///< sockets that are not closed yet

  /// About once a second: where a close does not come back, another thread goes on with the sockets
  /// of all others.
  void tick();

 private:
  struct Work;
  std::shared_ptr<Work> work_;  ///< a thread that never comes back holds it, too
};

/// True: closing any Unix socket may close descriptors that others have passed (Linux before 6.10).
bool closing_collects_others();

/// A Unix socket to whose queue a process of `owner`, a tenant's name, can send, or could before it
/// was accepted.
class PeerSocket {
 public:
  PeerSocket() = default;
  PeerSocket(UniqueFd socket, SocketCloser& closer, std::string owner)
      : socket_(std::move(socket)), closer_(&closer), owner_(std::move(owner)) {}
  PeerSocket(PeerSocket&&) noexcept = default;
  PeerSocket& operator=(PeerSocket&& other) noexcept {
    if (this == &other) return *this;
    reset();
    socket_ = std::move(other.socket_);
    closer_ = other.closer_;
    owner_ = std::move(other.owner_);
    return *this;
  }
  ~PeerSocket() { reset(); }

  int get() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  /// The peer learns at once that the connection has ended.
  void reset() {
    if (!socket_) return;
    ::shutdown(socket_.get(), SHUT_RDWR);
    closer_->close(std::move(socket_), owner_);
  }

  /// The peer has the socket, too, and keeps it. Only what we have sent can be in its queue.
  void hand_over() {
    if (!socket_) return;
    if (closing_collects_others())
      closer_->close(std::move(socket_), owner_);
    else
      socket_ = {};
  }
  /// Another one of the same owner.
  PeerSocket sibling(UniqueFd socket) const { return {std::move(socket), *closer_, owner_}; }

 private:
  UniqueFd socket_;
  SocketCloser* closer_ = nullptr;
  std::string owner_;
};

}  // namespace softhca::control
