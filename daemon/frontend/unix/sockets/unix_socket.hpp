// SPDX-License-Identifier: Apache-2.0

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
#include "daemon/control_thread/peer_identity.hpp"

namespace softhca::control {

/// File permissions of a socket, which decide which processes may connect. owner and group are
/// names or numbers; empty: left as created.
struct SocketPermissions {
  std::string owner;
  std::string group;
  unsigned mode = 0666;
};

/// Makes a listening socket at `path`, and replaces one on which no process listens any longer.
/// Errors: path too long, in use by a running daemon, unknown owner or group, permissions.
Expected<UniqueFd> listen_at(const std::string& path, const SocketPermissions& permissions,
                             int type = SOCK_SEQPACKET);

/// Changes the permission to connect to the socket at `path`: by its owner and group if this
/// process may change these, else by an access control list. Errors: unknown owner or group,
/// permissions.
Outcome set_permissions(const std::string& path, const SocketPermissions& permissions);

/// True if a process accepts connections at `path`. Tries to connect.
bool somebody_listens(const std::string& path, int type = SOCK_SEQPACKET);
/// Returns an error if a running daemon accepts connections there.
Outcome check_nobody_listens(const std::string& path);

std::optional<PeerIdentity> peer_identity(int socket);
/// Returns a pidfd of the process that connected; before Linux 6.5, of the process that has its
/// number now. Empty with errno: ESRCH (it has ended) or another error.
UniqueFd peer_pidfd(int socket, const PeerIdentity& peer);

enum class ReceiveResult { kRecord, kNothing, kClosed };

/// Copies waiting bytes into `buffer` and returns their number; 0: the peer sends no more. The
/// bytes stay unread, with the descriptors in them, so that none is closed here. Does not block.
/// Returns -1 with errno: nothing waits (EAGAIN), descriptors wait (EBADMSG), or another error.
ssize_t peek(int socket, std::span<std::byte> buffer);

/// Copies the waiting record into `buffer`. A record longer than `buffer` counts as kClosed. So
/// does one with descriptors, which no request has. The record stays unread. Does not block.
ReceiveResult peek_record(int socket, std::span<std::byte> buffer, std::size_t& length);
/// Drops the waiting record. Take a request only when it is answered: if the adapter ends before,
/// the next one serves it. REQUIRES: peek_record() has returned it.
void take_record(int socket);

/// Returns the bytes of all records that wait in the socket.
std::size_t waiting_bytes(int socket);
/// True if the peer has not received everything that was sent to it.
bool has_unread(int socket);

/// Sends as many bytes as there is room for, with descriptors (at most abi::kMaxFds) if any byte is
/// sent. Returns the number of bytes; -1 with errno: none (EAGAIN: the socket is full).
ssize_t send_some(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
/// Sends one record with descriptors. Returns false if the peer is gone or does not read.
bool send_record(int socket, std::span<const std::byte> record, std::span<const int> fds);

}  // namespace softhca::control
