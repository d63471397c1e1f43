// The tenant socket: one request, one reply (abi/control.hpp). One per opened device.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include "abi/control.hpp"
#include "libverbs-provider/lock.hpp"
#include "libverbs-provider/record_socket.hpp"
#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {

class ControlChannel {
 public:
  /// The channel for as long as this lives: no request of another thread comes between the calls
  /// of one turn and what is done with their replies. A reply may rest on an earlier one (a ring in
  /// a segment announced with another ring), so what it says of shared state is acted on within the
  /// turn. Locks of queues are taken before a turn begins, never in it.
  class Turn {
   public:
    explicit Turn(ControlChannel& channel);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Sends `operation` with `body`, receives a reply body of `reply.size()` bytes. Returns 0, the
    /// errno value of the reply, EPROTO for a reply out of contract, EIO once the daemon is gone,
    /// EBADF when the program has closed the connection, ENOMEM or ENOBUFS when nothing was sent.
    /// After 0 the caller checks `fds`: the process may have had no place for a descriptor, and
    /// then undoes what the daemon has made, in the same turn.
    int call(abi::Operation operation, std::span<const iovec> body, std::span<std::byte> reply,
             ReceivedFds& fds);

    template <class Request, class Reply>
    int call(abi::Operation operation, const Request& request, Reply& reply, ReceivedFds& fds) {
      const iovec body{const_cast<Request*>(&request), sizeof request};
      return call(operation, {&body, 1}, std::as_writable_bytes(std::span{&reply, 1}), fds);
    }
    /// For operations that come without descriptors; any that come anyway are closed.
    template <class Request, class Reply>
    int call(abi::Operation operation, const Request& request, Reply& reply) {
      ReceivedFds none;
      return call(operation, request, reply, none);
    }
    /// For operations whose reply is nothing but its error.
    template <class Request>
    int call(abi::Operation operation, const Request& request) {
      const iovec body{const_cast<Request*>(&request), sizeof request};
      ReceivedFds none;
      return call(operation, {&body, 1}, {}, none);
    }

    /// As ControlChannel::destroy(), for what the daemon has made and the process cannot use.
    int destroy(abi::Operation operation, std::uint32_t handle) {
      const int error = call(operation, abi::HandleBody{handle, 0});
      return channel_.lost() ? 0 : error;
    }

    /// The process cannot follow what the daemon has done: the connection is useless from now on,
    /// and the program is told so as when the daemon is gone. Returns `error`.
    int give_up(int error) { return channel_.broken(error); }

   private:
    ControlChannel& channel_;
    bool locked_;
  };

  /// 0 or an errno value.
  int connect(const char* path);

  /// A turn of one call.
  int call(abi::Operation operation, std::span<const iovec> body, std::span<std::byte> reply,
           ReceivedFds& fds) {
    return Turn(*this).call(operation, body, reply, fds);
  }
  template <class... Arguments>
  int call(abi::Operation operation, Arguments&&... arguments) {
    return Turn(*this).call(operation, std::forward<Arguments>(arguments)...);
  }
  /// For operations that end the life of an object. When the daemon is gone so is the object: that
  /// counts as success, and lets programs clean up.
  int destroy(abi::Operation operation, std::uint32_t handle) {
    return Turn(*this).destroy(operation, handle);
  }
  template <class Request>
  int destroy(abi::Operation operation, const Request& request) {
    const int error = call(operation, request);
    return lost() ? 0 : error;
  }

  /// True when the daemon has closed the connection (asks the kernel).
  bool hung_up();
  bool lost() const { return lost_.load(std::memory_order_relaxed); }

  /// Every call fails from now on, as when the daemon is gone.
  void give_up() { broken(EIO); }

  /// In a forked child: gives up the copy of the connection, which stays the parent's.
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
