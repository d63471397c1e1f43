// Records on a Unix socket (SOCK_SEQPACKET), and the descriptors that come with them.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "abi/control.hpp"

namespace softhca::provider {

/// Descriptors that came with a reply; those not taken are closed.
class ReceivedFds {
 public:
  ReceivedFds() = default;
  ~ReceivedFds() { clear(); }
  ReceivedFds(const ReceivedFds&) = delete;
  ReceivedFds& operator=(const ReceivedFds&) = delete;

  unsigned count() const { return count_; }
  /// 0 if exactly `wanted` came; EMFILE if the process had no place for one of them; else EPROTO.
  int check(unsigned wanted) const;
  /// The i-th descriptor, now the caller's; REQUIRES i < count(), not taken before.
  int take(unsigned i);
  void add(int fd);
  /// The kernel has dropped some that came.
  void note_dropped() { dropped_ = true; }
  /// Closes those that were not taken.
  void clear();

 private:
  int fds_[abi::kMaxFds] = {-1, -1, -1};
  unsigned count_ = 0;
  bool dropped_ = false;
};

/// 0 or an errno value. `fd`: the new descriptor, also where it could not be connected; or -1.
int connect_socket(const char* path, int& fd);

/// 0 or an errno value. Signals do not interrupt it.
int send_record(int fd, std::span<iovec> parts);

/// A record of one byte with a descriptor. 0 or an errno value. Signals do not interrupt it.
int send_descriptor(int socket, int fd);

/// True if a record that could not be sent for this reason leaves the connection as it was.
bool is_shortage(int error);

struct Received {
  /// Length of the record; what there was no room for is lost. 0: the other end is closed, or
  /// receiving failed.
  std::size_t bytes;
  bool too_many_fds;  ///< more descriptors came than any reply has
};
/// Signals do not interrupt it.
Received receive_record(int fd, std::span<iovec> parts, ReceivedFds& fds);

}  // namespace softhca::provider
