// One event channel of the connection manager: a connection to the tenant socket that carries its
// commands (abi/control.hpp). The descriptor that the program has is the other end of the channel's
// stream socket, and is not kept here.
//
// As with the kernel's file, a forked child shares the channel. So what orders its commands lies in
// memory that processes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/control.hpp"
#include "libverbs-provider/record_socket.hpp"
#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {

class EventChannel {
 public:
  EventChannel() = default;
  ~EventChannel();
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  /// Connects to the tenant socket; `signal_fd` is what the program gets, and the caller's. Returns
  /// 0 or an errno value.
  int open(const char* tenant_socket, int& signal_fd);

  /// The number that the daemon gave the channel.
  std::uint32_t number() const { return number_; }

  struct Response {
    abi::ConnectionCommandReply head;
    std::byte bytes[abi::kMaxConnectionReply];
  };

  /// No command of another thread, or of a process that shares the channel, comes between those of
  /// one turn and what is done with their replies.
  class Turn {
   public:
    explicit Turn(EventChannel& channel);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Returns 0, the errno value of the reply, EPROTO for a reply out of contract, EIO once the
    /// daemon is gone, EBADF when the program has closed the connection, ENOMEM or ENOBUFS when
    /// nothing was sent.
    int command(const abi::ConnectionCommandRequest& request, std::span<const std::byte> body,
                Response& response);
    /// The process cannot follow what the daemon says: the connection ends, for all who share it,
    /// and the program's descriptor is hung up. Returns `error`.
    int give_up(int error);

   private:
    EventChannel& channel_;
    int cancel_state_;
  };

  /// The connection has ended: every command fails with EIO.
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
