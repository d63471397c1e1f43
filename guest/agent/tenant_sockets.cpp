// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/tenant_sockets.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/base/system_error.hpp"
#include "guest/channel/frame.hpp"
#include "guest/channel/local_socket.hpp"

namespace softhca::guest {
namespace {

/// Makes the kernel refuse descriptors that programs send, from Linux 6.16 on. Closing one may take
/// as long as its sender likes.
void refuse_descriptors(int socket) {
#ifndef SO_PASSRIGHTS
  constexpr int SO_PASSRIGHTS = 83;
#endif
  const int passed = 0;
  ::setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &passed, sizeof passed);
}

}  // namespace

TenantSockets::TenantSockets(EventLoop& loop, std::optional<gid_t> group, Accept accept)
    : loop_(loop), group_(group), accept_(std::move(accept)), pause_(loop, [this] { arm(); }) {}

Outcome TenantSockets::open(const std::string& folder, const std::string& name) {
  if (listening_.contains(name)) return {};
  if (listening_.size() >= kMost) return Error{name + ": the tenant has too many sockets", EMFILE};
  const std::string path = folder + "/" + name;
  const bool is_control = name == kControlSocket;
  auto fd = listen_on(path, is_control ? SOCK_STREAM : SOCK_SEQPACKET,
                      group_ || is_control ? 0600 : 0666);
  if (!fd) return fd.error();
  if (group_ && (::chown(path.c_str(), static_cast<uid_t>(-1), *group_) != 0 ||
                 ::chmod(path.c_str(), 0660) != 0))
    return system_error(path);
  refuse_descriptors(fd->get());
  Listening& listening = listening_[name];
  listening.path = path;
  listening.fd = std::move(*fd);
  listening.watch.ready = [this, name, &listening](std::uint32_t) { ready(name, listening); };
  arm();
  return {};
}

void TenantSockets::close(const std::string& name) {
  const auto found = listening_.find(name);
  if (found == listening_.end()) return;
  loop_.arm(found->second.fd.get(), found->second.watch, 0);
  ::unlink(found->second.path.c_str());
  listening_.erase(found);
}

void TenantSockets::close_all() {
  while (!listening_.empty()) close(std::string(listening_.begin()->first));
}

void TenantSockets::accept_more(bool more) {
  if (more == accepts_more_) return;
  accepts_more_ = more;
  arm();
}

void TenantSockets::arm() {
  const bool waits = accepts_more_ && !pause_.is_running();
  for (auto& [name, listening] : listening_)
    loop_.arm(listening.fd.get(), listening.watch, waits ? std::uint32_t{EPOLLIN} : 0);
}

void TenantSockets::ready(const std::string& name, Listening& listening) {
  UniqueFd connection(::accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection) return accept_(name, std::move(connection));
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
  pause_.start(kPause);
  arm();
}

}  // namespace softhca::guest
