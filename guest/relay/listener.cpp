// SPDX-License-Identifier: Apache-2.0

#include "guest/relay/listener.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

// It uses types of sys/socket.h.
#include <linux/vm_sockets.h>

#include <charconv>

#include "daemon/base/system_error.hpp"
#include "guest/channel/frame.hpp"
#include "guest/channel/local_socket.hpp"

namespace softhca::guest {

Listener::~Listener() {
  loop_.arm(fd_.get(), watch_, 0);
  if (!path_.empty()) ::unlink(path_.c_str());
}

Outcome Listener::open(const std::string& place, Accept accept) {
  accept_ = std::move(accept);
  if (place == "vsock" || place.starts_with("vsock:")) {
    if (auto opened = open_vsock(place == "vsock" ? "" : place.substr(6)); !opened) return opened;
  } else {
    auto fd = listen_on(place, SOCK_STREAM, 0600);
    if (!fd) return fd.error();
    fd_ = std::move(*fd);
    path_ = place;
  }
  watch_.ready = [this](std::uint32_t) { ready(); };
  loop_.arm(fd_.get(), watch_, EPOLLIN);
  return {};
}

Outcome Listener::open_vsock(const std::string& cid) {
  if (!cid.empty()) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(cid.data(), cid.data() + cid.size(), number);
    if (error != std::errc{} || end != cid.data() + cid.size())
      return Error{"vsock:" + cid + ": expected the CID of the machine, a number", EINVAL};
    cid_ = number;
  }
  fd_ = UniqueFd(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_) return system_error("vsock");
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = VMADDR_CID_ANY;
  address.svm_port = kVsockPort;
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd_.get(), 1) != 0)
    return system_error("vsock port " + std::to_string(kVsockPort));
  return {};
}

void Listener::ready() {
  sockaddr_vm peer{};
  socklen_t length = sizeof peer;
  UniqueFd fd(::accept4(fd_.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_CLOEXEC));
  if (!fd || (cid_ && peer.svm_cid != *cid_)) return;
  accept_(std::move(fd));
}

}  // namespace softhca::guest
