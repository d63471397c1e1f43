// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/unix_socket.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "abi/control.hpp"
#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/configuration/resource_manager/owners.hpp"
#include "daemon/frontend/unix/sockets/access_list.hpp"

namespace softhca::control {
namespace {

/// Returns the address of a path. Nothing: the path is too long.
std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Error in_use(const std::string& path) {
  return {path + ": address in use by a running daemon: stop it or choose another runtime_dir",
          EADDRINUSE};
}

/// Returns why the socket could not be given to its owner or group.
Error chown_error(const std::string& path, const SocketPermissions& permissions) {
  if (errno != EPERM || (permissions.owner.empty() && permissions.group.empty()))
    return system_error("chown " + path);
  if (!permissions.owner.empty())
    return {"cannot give " + path + " to user '" + permissions.owner +
                "': run softhcad as root, or leave socket.owner out",
            EPERM};
  return {"cannot give " + path + " to group '" + permissions.group +
              "': the user of softhcad is not in that group; add it, or run softhcad as root",
          EPERM};
}

/// Sets an access control list after a failed chown.
Outcome list_instead(const std::string& path, const SocketPermissions& permissions,
                     std::optional<uid_t> user, std::optional<gid_t> group) {
  const int code = errno;
  if (code == EPERM && set_access_list(path, user, group, permissions.mode)) return {};
  errno = code;
  return chown_error(path, permissions);
}

/// Makes the kernel refuse to send descriptors to the socket, and to those accepted from it. Linux
/// before 6.16 lacks the option: there, descriptors arrive, and are left where they are (peek()).
void refuse_descriptors(int socket) {
#ifndef SO_PASSRIGHTS
  constexpr int SO_PASSRIGHTS = 83;
#endif
  const int passed = 0;
  ::setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &passed, sizeof passed);
}

/// As the function of the same name, with the flags of the message.
ssize_t peek(int socket, std::span<std::byte> buffer, int& flags) {
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t got;
  do got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK);
  while (got < 0 && errno == EINTR);
  flags = message.msg_flags;
  if (got < 0 || (flags & MSG_CTRUNC) == 0) return got;
  errno = EBADMSG;
  return -1;
}

}  // namespace

bool somebody_listens(const std::string& path, int type) {
  const auto address = address_of(path);
  if (!address) return false;
  UniqueFd probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) ==
             0 ||
         errno == EAGAIN;  // more connections wait than its queue holds
}

Outcome check_nobody_listens(const std::string& path) {
  if (somebody_listens(path)) return in_use(path);
  return {};
}

Outcome set_permissions(const std::string& path, const SocketPermissions& permissions) {
  const auto owner = configuration::user_id(permissions.owner);
  if (!owner) return owner.error();
  const auto group = configuration::group_id(permissions.group);
  if (!group) return group.error();
  // With CAP_CHOWN alone, the daemon can change only the owner of another user's file. So it
  // becomes the owner first.
  struct stat st {};
  const bool is_ours = ::stat(path.c_str(), &st) == 0 && st.st_uid == ::geteuid();
  if (!is_ours && ::chown(path.c_str(), ::geteuid(), configuration::kNoGroup) != 0)
    return chown_error(path, permissions);
  const bool gives_user = *owner != configuration::kNoUser,
             gives_group = *group != configuration::kNoGroup;
  // Only the daemon has access until owner and group are set.
  if (::chmod(path.c_str(), permissions.mode & S_IRWXU) != 0) return system_error("chmod " + path);
  remove_access_list(path);
  if (gives_group && ::chown(path.c_str(), configuration::kNoUser, *group) != 0)
    return list_instead(path, permissions, gives_user ? std::optional(*owner) : std::nullopt,
                        *group);
  if (::chmod(path.c_str(), permissions.mode) != 0) return system_error("chmod " + path);
  if (gives_user && ::chown(path.c_str(), *owner, configuration::kNoGroup) != 0)
    return list_instead(path, permissions, *owner, std::nullopt);
  return {};
}

Expected<UniqueFd> listen_at(const std::string& path, const SocketPermissions& permissions,
                             int type) {
  const auto address = address_of(path);
  if (!address)
    return Error{"socket path " + path + " is longer than 107 bytes: choose a shorter runtime_dir",
                 ENAMETOOLONG};

  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket");
  if (somebody_listens(path, type)) return in_use(path);
  ::unlink(path.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return system_error("bind " + path);
  if (const auto permitted = set_permissions(path, permissions); !permitted) {
    ::unlink(path.c_str());
    return permitted.error();
  }
  refuse_descriptors(fd.get());
  if (::listen(fd.get(), 64) != 0) return system_error("listen " + path);
  return fd;
}

std::optional<PeerIdentity> peer_identity(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
    return std::nullopt;
  return PeerIdentity{credentials.pid, credentials.uid, credentials.gid};
}

UniqueFd peer_pidfd(int socket, const PeerIdentity& peer) {
#ifndef SO_PEERPIDFD
  constexpr int SO_PEERPIDFD = 77;
#endif
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return UniqueFd(fd);
  if (errno == EINVAL || errno == ENODATA) errno = ESRCH;  // some kernel versions return these
  if (errno != ENOPROTOOPT) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

ssize_t peek(int socket, std::span<std::byte> buffer) {
  int flags;
  return peek(socket, buffer, flags);
}

ReceiveResult peek_record(int socket, std::span<std::byte> buffer, std::size_t& length) {
  int flags;
  const ssize_t got = peek(socket, buffer, flags);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return ReceiveResult::kNothing;
  if (got <= 0 || (flags & MSG_TRUNC) != 0) return ReceiveResult::kClosed;
  length = static_cast<std::size_t>(got);
  return ReceiveResult::kRecord;
}

void take_record(int socket) {
  std::byte none{};
  while (::recv(socket, &none, 1, MSG_DONTWAIT) < 0 && errno == EINTR) {
  }
}

std::size_t waiting_bytes(int socket) {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool has_unread(int socket) {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes != 0;
}

ssize_t send_some(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  static_assert(abi::kMaxFds <= kMostPassed);
  return send_with_descriptors(socket, bytes, fds);
}

bool send_record(int socket, std::span<const std::byte> record, std::span<const int> fds) {
  return send_some(socket, record, fds) == static_cast<ssize_t>(record.size());
}

}  // namespace softhca::control
