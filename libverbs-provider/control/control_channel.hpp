// SPDX-License-Identifier: Apache-2.0

// The tenant socket: one request, one reply (abi/control.hpp). Each opened device has one.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include "abi/control.hpp"
#include "libverbs-provider/control/record_socket.hpp"
#include "libverbs-provider/lock.hpp"
#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {

class ControlChannel {
 public:
  /// Exclusive use of the channel: no request of another thread comes between the calls of one turn
  /// and the handling of their replies. A reply may depend on an earlier one (a ring in a segment
  /// that was announced with another ring), so the caller applies replies within the turn. Lock
  /// queues before a turn, never within it.
  class Turn {
   public:
    explicit Turn(ControlChannel& channel);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Sends `operation` with `body` and receives a reply body of `reply.size()` bytes. Returns 0
    /// or an errno value: that of the reply; EPROTO: invalid reply; EIO: the daemon has ended;
    /// EBADF: the program closed the connection; ENOMEM or ENOBUFS: nothing was sent.
    ///
    /// After 0 the caller checks `fds`: the process may have had no room for a descriptor. Then the
    /// caller destroys in the same turn what the daemon has made.
    int call(abi::Operation operation, std::span<const iovec> body, std::span<std::byte> reply,
             ReceivedFds& fds);

    template <class Request, class Reply>
    int call(abi::Operation operation, const Request& request, Reply& reply, ReceivedFds& fds) {
      const iovec body{const_cast<Request*>(&request), sizeof request};
      return call(operation, {&body, 1}, std::as_writable_bytes(std::span{&reply, 1}), fds);
    }
    /// For operations without descriptors; closes any that come.
    template <class Request, class Reply>
    int call(abi::Operation operation, const Request& request, Reply& reply) {
      ReceivedFds none;
      return call(operation, request, reply, none);
    }
    /// For operations that reply only with an error.
    template <class Request>
    int call(abi::Operation operation, const Request& request) {
      const iovec body{const_cast<Request*>(&request), sizeof request};
      ReceivedFds none;
      return call(operation, {&body, 1}, {}, none);
    }

    /// As ControlChannel::destroy(), for an object that the daemon has made and the process cannot
    /// use.
    int destroy(abi::Operation operation, std::uint32_t handle) {
      const int error = call(operation, abi::HandleBody{handle, 0});
      return channel_.lost() ? 0 : error;
    }

    /// Gives up the connection, because the process cannot follow a change that the daemon has
    /// made. The program gets the same errors as when the daemon has ended. Returns `error`.
    int give_up(int error) { return channel_.broken(error); }

   private:
    ControlChannel& channel_;
    bool locked_;
  };

  /// Connects to the daemon. Returns 0 or an errno value.
  int connect(const char* path);

  /// Makes one call in a turn of its own.
  int call(abi::Operation operation, std::span<const iovec> body, std::span<std::byte> reply,
           ReceivedFds& fds) {
    return Turn(*this).call(operation, body, reply, fds);
  }
  template <class... Arguments>
  int call(abi::Operation operation, Arguments&&... arguments) {
    return Turn(*this).call(operation, std::forward<Arguments>(arguments)...);
  }
  /// For operations that destroy an object. If the daemon has ended, the object has ended, too.
  /// That counts as success, so that programs can clean up.
  int destroy(abi::Operation operation, std::uint32_t handle) {
    return Turn(*this).destroy(operation, handle);
  }
  template <class Request>
  int destroy(abi::Operation operation, const Request& request) {
    const int error = call(operation, request);
    return lost() ? 0 : error;
  }

  /// True if the daemon has closed the connection. Asks the kernel.
  bool hung_up();
  bool lost() const { return lost_.load(std::memory_order_relaxed); }

  /// Makes all later calls fail, as when the daemon has ended.
  void give_up() { broken(EIO); }

  /// Gives up the connection in a forked child; the parent keeps its own.
  void abandon();

 private:
  int exchange(const abi::RequestHeader& header, std::span<const iovec> body,
               std::span<std::byte> reply, ReceivedFds& fds);
  int broken(int error);
  void wait_awake() const;
  int receive(std::span<std::byte> reply, std::uint32_t tag, ReceivedFds& fds);

  Mutex mutex_;
  OwnDescriptor fd_;
  std::uint32_t next_tag_ = 1;
  std::atomic<bool> lost_{false};
};

}  // namespace softhca::provider
