// A Unix socket to whose queue a tenant's processes can send.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "daemon/base/unique_fd.hpp"
#include "daemon/control/sockets/blocking_calls.hpp"

namespace softhca::control {

/// True: closing any Unix socket may close descriptors that others have passed (Linux before 6.10
/// takes away what waits in others' sockets while it closes one, unix_gc).
bool closing_collects_others();

/// A process of `owner`, a tenant's name, can send to it, or could before it was accepted. What a
/// peer has sent and nobody has received goes with a socket, descriptors that were passed among it:
/// closing the last of these may wait for as long as the peer likes (a TCP socket with SO_LINGER, a
/// file of a server that does not answer).
class PeerSocket {
 public:
  PeerSocket() = default;
  PeerSocket(UniqueFd socket, BlockingCalls& calls, std::string owner)
      : socket_(std::move(socket)), calls_(&calls), owner_(std::move(owner)) {}
  PeerSocket(PeerSocket&&) noexcept = default;
  PeerSocket& operator=(PeerSocket&& other) noexcept {
    if (this == &other) return *this;
    reset();
    socket_ = std::move(other.socket_);
    calls_ = other.calls_;
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
    calls_->close(std::move(socket_), owner_);
  }

  /// The peer has the socket, too, and keeps it. Only what we have sent can be in its queue.
  void hand_over() {
    if (!socket_) return;
    if (closing_collects_others())
      calls_->close(std::move(socket_), owner_);
    else
      socket_ = {};
  }
  /// Another one of the same owner.
  PeerSocket sibling(UniqueFd socket) const { return {std::move(socket), *calls_, owner_}; }

 private:
  UniqueFd socket_;
  BlockingCalls* calls_ = nullptr;
  std::string owner_;
};

}  // namespace softhca::control
