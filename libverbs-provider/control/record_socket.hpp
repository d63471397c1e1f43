// SPDX-License-Identifier: Apache-2.0

// Records on a Unix socket (SOCK_SEQPACKET), with their descriptors.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/control.hpp"

namespace softhca::provider {

/// Descriptors received with a reply, and where their memory is. Closes those that are not taken.
class ReceivedFds {
 public:
  ReceivedFds() = default;
  ~ReceivedFds() { clear(); }
  ReceivedFds(const ReceivedFds&) = delete;
  ReceivedFds& operator=(const ReceivedFds&) = delete;

  unsigned count() const { return count_; }
  /// Returns 0 if exactly `wanted` descriptors came, EMFILE if the process had no room for one of
  /// them, else EPROTO.
  int check(unsigned wanted) const;
  /// Returns the i-th descriptor, which the caller then owns. REQUIRES: i < count(), not taken
  /// before.
  int take(unsigned i);
  void add(int fd);
  /// Returns which parts of the first descriptor are the memory; null: all of it. Only in a virtual
  /// machine there are such places. They are as received, so the caller checks them.
  const abi::MemoryPlaces* places() const { return has_places_ ? &places_ : nullptr; }
  void set_places(const abi::MemoryPlaces& places) {
    places_ = places;
    has_places_ = true;
  }
  /// Notes that the kernel dropped some descriptors.
  void note_dropped() { dropped_ = true; }
  /// Closes the descriptors that were not taken, and forgets the places.
  void clear();

 private:
  int fds_[abi::kMaxFds] = {-1, -1, -1};
  unsigned count_ = 0;
  bool dropped_ = false;
  bool has_places_ = false;
  abi::MemoryPlaces places_{};
};

/// Connects a new socket. Returns 0 or an errno value. `fd`: the descriptor, even if it could not
/// be connected; or -1.
int connect_socket(const char* path, int& fd);

/// Connects and greets by `attempt`, which returns 0 or an errno value. If the connection has ended
/// instead of an answer, it does so again: an adapter that crashes loses connections that it has
/// not recorded, and the next one takes others.
template <class Attempt>
int greet_again_if_lost(Attempt&& attempt) {
  constexpr int kMost = 3;
  int error = EIO;
  for (int i = 0; i < kMost && (error == EIO || error == EPIPE || error == ECONNRESET); ++i)
    error = attempt();
  return error;
}

/// Sends a record. Returns 0 or an errno value. Signals do not interrupt it.
int send_record(int fd, std::span<iovec> parts);

/// Sends a record of one byte with a descriptor. Returns 0 or an errno value. Signals do not
/// interrupt it.
int send_descriptor(int socket, int fd);

/// True if the connection is still usable after this error of a send.
bool is_shortage(int error);

struct Received {
  /// Length of the record, cut to the room in `parts`. 0: the other end is closed, or the call
  /// failed.
  std::size_t bytes;
  bool too_many_fds;  ///< more descriptors than any reply has
};
/// Receives a record. Signals do not interrupt it.
Received receive_record(int fd, std::span<iovec> parts, ReceivedFds& fds);
/// Does the same with the reply to request `tag`, or whatever else comes for it. `parts` begins
/// with an abi::ReplyHeader. Skips replies to earlier requests: an adapter that follows one that
/// crashed may answer again.
Received receive_reply(int fd, std::span<iovec> parts, std::uint32_t tag, ReceivedFds& fds);

}  // namespace softhca::provider
