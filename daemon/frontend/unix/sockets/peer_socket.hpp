// SPDX-License-Identifier: Apache-2.0

// A Unix socket to which a tenant's processes can send.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "daemon/base/kept.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control_thread/blocking_calls.hpp"

namespace softhca::control {

/// True if closing any Unix socket may close descriptors that others have passed. Linux before 6.10
/// removes what waits in others' sockets while it closes one (unix_gc).
bool closing_collects_others();

/// A socket to which a process of `owner`, a tenant's name, can send, or could before it was
/// accepted. Closing it also closes what the peer has sent and the daemon has not received, with
/// passed descriptors. Closing the last copy of such a descriptor may wait for as long as the peer
/// likes: a TCP socket with SO_LINGER, a file of a server that does not answer.
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
    kept_ = std::move(other.kept_);
    calls_ = other.calls_;
    owner_ = std::move(other.owner_);
    return *this;
  }
  ~PeerSocket() { reset(); }

  int get() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  /// Makes it outlive the adapter. Errors: those of Keeping::keep().
  Outcome keep(Keeping* keeping) {
    auto kept = Kept::descriptor(keeping, socket_.get());
    if (!kept) return kept.error();
    kept_ = std::move(*kept);
    return {};
  }
  /// Takes over the keeping of a socket that an earlier adapter kept.
  void own(Kept kept) { kept_ = std::move(kept); }
  KeptId kept() const { return kept_.id(); }

  /// Closes the socket. The kernel notifies the peer at once that the connection has ended.
  void reset() {
    if (!socket_) return;
    ::shutdown(socket_.get(), SHUT_RDWR);
    kept_.drop();  // the last copy is closed here, where that may take long
    calls_->close(std::move(socket_), owner_);
  }

  /// Drops the socket, which the peer has, too, and keeps. Only what the daemon has sent can be in
  /// its queue.
  void hand_over() {
    if (!socket_) return;
    if (closing_collects_others())
      calls_->close(std::move(socket_), owner_);
    else
      socket_ = {};
  }
  /// Returns another socket of the same owner.
  PeerSocket sibling(UniqueFd socket) const { return {std::move(socket), *calls_, owner_}; }

 private:
  UniqueFd socket_;
  Kept kept_;
  BlockingCalls* calls_ = nullptr;
  std::string owner_;
};

}  // namespace softhca::control
