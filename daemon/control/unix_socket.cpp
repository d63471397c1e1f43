#include "daemon/control/unix_socket.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/sockios.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "abi/control.hpp"
#include "daemon/base/system_error.hpp"

namespace softhca::control {
namespace {

std::optional<unsigned> as_number(const std::string& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Expected<uid_t> user_id(const std::string& name) {
  if (name.empty()) return static_cast<uid_t>(-1);
  if (const auto number = as_number(name)) return uid_t{*number};
  if (const passwd* entry = getpwnam(name.c_str())) return entry->pw_uid;
  return Error{"no user '" + name + "' on this system: name an existing user or a number", ENOENT};
}

Expected<gid_t> group_id(const std::string& name) {
  if (name.empty()) return static_cast<gid_t>(-1);
  if (const auto number = as_number(name)) return gid_t{*number};
  if (const group* entry = getgrnam(name.c_str())) return entry->gr_gid;
  return Error{"no group '" + name + "' on this system: name an existing group or a number",
               ENOENT};
}

bool somebody_listens(const sockaddr_un& address) {
  UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Expected<UniqueFd> listen_at(const std::string& path, const SocketPermissions& permissions) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error{"socket path " + path + " is longer than 107 bytes: choose a shorter runtime_dir",
                 ENAMETOOLONG};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

  const auto owner = user_id(permissions.owner);
  if (!owner) return owner.error();
  const auto group = group_id(permissions.group);
  if (!group) return group.error();

  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket");
  if (somebody_listens(address))
    return Error{path + " belongs to a running daemon: stop it or choose another runtime_dir",
                 EADDRINUSE};
  ::unlink(path.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error("bind " + path);
  if ((*owner != static_cast<uid_t>(-1) || *group != static_cast<gid_t>(-1)) &&
      ::chown(path.c_str(), *owner, *group) != 0)
    return system_error("chown " + path);
  if (::chmod(path.c_str(), permissions.mode) != 0) return system_error("chmod " + path);
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

ReceiveResult receive_record(int socket, std::span<std::byte> buffer, std::size_t& length) {
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t got;
  do got = ::recvmsg(socket, &message, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return errno == EAGAIN || errno == EWOULDBLOCK ? ReceiveResult::kNothing
                                                   : ReceiveResult::kClosed;
  if (got == 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return ReceiveResult::kClosed;
  length = static_cast<std::size_t>(got);
  return ReceiveResult::kRecord;
}

bool has_unread(int socket) {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes != 0;
}

bool send_record(int socket, std::span<const std::byte> record, std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(record.data()), record.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * abi::kMaxFds)] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(record.size());
}

}  // namespace softhca::control
