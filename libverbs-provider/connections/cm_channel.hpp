// SPDX-License-Identifier: Apache-2.0

// An event channel of the connection manager: a connection to the tenant socket for its commands
// (abi/control.hpp). The program's descriptor is the other end of the channel's stream socket, and
// is not kept here.
//
// A forked child shares the channel, as with the kernel's file. So the lock and the state of its
// commands are in memory that processes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/control.hpp"
#include "libverbs-provider/control/record_socket.hpp"
#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {

class CmChannel {
 public:
  CmChannel() = default;
  ~CmChannel();
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;

  /// Connects to the tenant socket. `signal_fd` is the program's descriptor; the caller owns it.
  /// Returns 0 or an errno value.
  int open(const char* tenant_socket, int& signal_fd);

  /// Returns the channel's number in the daemon.
  std::uint32_t number() const { return number_; }

  struct Response {
    abi::ConnectionCommandReply head;
    std::byte bytes[abi::kMaxConnectionReply];
  };

  /// Exclusive use of the channel: no command of another thread, or of another process that shares
  /// the channel, comes between the commands of one turn and the handling of their replies.
  class Turn {
   public:
    explicit Turn(CmChannel& channel);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Sends a command. Returns 0 or an errno value: that of the reply; EPROTO: invalid reply; EIO:
    /// the daemon has ended; EBADF: the program closed the connection; ENOMEM or ENOBUFS: nothing
    /// was sent.
    int command(const abi::ConnectionCommandRequest& request, std::span<const std::byte> body,
                Response& response);
    /// Ends the connection for all processes that share it, because this process cannot follow the
    /// daemon's reply. The program's descriptor is hung up. Returns `error`.
    int give_up(int error);

   private:
    CmChannel& channel_;
    int cancel_state_;
  };

  /// True if the connection has ended, so that each command fails with EIO.
  bool lost() const;

 private:
  struct Shared;

  int share();
  int greet(int& signal_fd);

  OwnDescriptor fd_;
  std::uint32_t number_ = 0;
  Shared* shared_ = nullptr;
};

}  // namespace softhca::provider
