// Unix sockets: listening with owner and mode; SOCK_SEQPACKET records with descriptors.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

/// File permissions of a socket, which say who may connect. owner and group are names or numbers;
/// empty: left as created.
struct SocketPermissions {
  std::string owner;
  std::string group;
  unsigned mode = 0666;
};

/// Makes a listening socket at `path`, replacing one that no process listens on any more.
/// Errors: path too long, in use by a living daemon, unknown owner or group, permissions.
Expected<UniqueFd> listen_at(const std::string& path, const SocketPermissions& permissions,
                             int type = SOCK_SEQPACKET);

/// Changes who may connect to the socket at `path`: by its owner and group where this process may
/// give it away, else by an access control list. Errors: unknown owner or group, permissions.
Outcome set_permissions(const std::string& path, const SocketPermissions& permissions);

/// Does a process accept connections at `path`? Asked by connecting.
bool somebody_listens(const std::string& path, int type = SOCK_SEQPACKET);
/// Error: a running daemon accepts connections there.
Outcome check_nobody_listens(const std::string& path);

struct PeerIdentity {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
std::optional<PeerIdentity> peer_identity(int socket);
/// A pidfd of the process that connected. Before Linux 6.5: of the process that has its number now.
/// Empty and errno set: ESRCH (it has ended) or another error.
UniqueFd peer_pidfd(int socket, const PeerIdentity& peer);

enum class ReceiveResult { kRecord, kNothing, kClosed };

/// Copies what waits into `buffer` and returns its length; 0: the peer sends no more. It stays
/// unread, descriptors in it included, so that none is closed here. Non-blocking. -1 and errno set:
/// nothing waits (EAGAIN), descriptors wait (EBADMSG), or another error.
ssize_t peek(int socket, std::span<std::byte> buffer);

/// One record into `buffer` (its size is the limit; a longer one counts as kClosed, as does one
/// that carries descriptors: no request does, and it stays unread). Non-blocking.
ReceiveResult receive_record(int socket, std::span<std::byte> buffer, std::size_t& length);

/// True: the peer has not yet received all that was sent to it.
bool has_unread(int socket);

/// Sends as much as there is room for, with descriptors (at most abi::kMaxFds) if any of it goes.
/// Returns how many bytes; -1 and errno set: none (EAGAIN: there is no room).
ssize_t send_some(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
/// Sends one record with descriptors; false when the peer is gone or does not read.
bool send_record(int socket, std::span<const std::byte> record, std::span<const int> fds);

}  // namespace softhca::control
