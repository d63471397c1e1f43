// SPDX-License-Identifier: Apache-2.0

#include "cli/admin_client.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace softhca::cli {
namespace {

std::string why_unreachable(const std::string& path, int error) {
  if (error == ENOENT && path.ends_with("/control.sock"))
    return "no socket " + path +
           "; check that softhcad is running, and that the tenant has levels or own_levels";
  if (error == ENOENT || error == ECONNREFUSED)
    return "no daemon listens on " + path + "; check that softhcad is running";
  if (error == EACCES || error == EPERM)
    return "no permission for " + path +
           "; the daemon's configuration sets its owner, group and mode: [admin] socket, or "
           "control of the tenant";
  return path + ": " + std::strerror(error);
}

}  // namespace

AdminClient::AdminClient(const std::string& path, int timeout_seconds)
    : path_(path), timeout_seconds_(timeout_seconds) {
  connect();
}

void AdminClient::reconnect() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  input_.clear();
  connect();
}

void AdminClient::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path)
    throw CommandError(kUsage, "the path " + path_ + " is too long for a socket");
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) throw CommandError(kUnreachable, why_unreachable(path_, errno));
  const timeval timeout{.tv_sec = timeout_seconds_, .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  const int error = errno;
  ::close(std::exchange(socket_, -1));
  throw CommandError(kUnreachable, why_unreachable(path_, error), {}, error);
}

AdminClient::~AdminClient() {
  if (socket_ >= 0) ::close(socket_);
  for (const int descriptor : descriptors_) ::close(descriptor);
}

Json AdminClient::call(const std::string& method, const Json& params) {
  const unsigned id = next_id_++;
  const Json request = {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}};
  send(request.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  const Json reply = Json::parse(receive_line(), nullptr, false);
  if (!reply.is_object())
    throw CommandError(kUnreachable, path_ + ": the program that listens here is not softhcad");
  if (reply.contains("error")) {
    const Json& error = reply["error"];
    throw CommandError(kRefused, error.value("message", "refused"), error.value("data", Json()),
                       error.value("code", 0));
  }
  if (!reply.contains("result") || reply.value("id", 0u) != id)
    throw CommandError(kUnreachable, path_ +
                                         ": the reply is for another request; softhcactl and "
                                         "softhcad may be of different versions");
  return reply["result"];
}

Json AdminClient::read(const std::string& method, const Json& params) {
  try {
    return call(method, params);
  } catch (const Disconnected&) {
    reconnect();
    return call(method, params);
  }
}

void AdminClient::send(const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Disconnected(path_);
    sent += static_cast<std::size_t>(n);
  }
}

std::string AdminClient::receive_line() {
  for (std::size_t searched = 0;;) {
    const std::size_t end = input_.find('\n', searched);
    if (end != std::string::npos) {
      const std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    searched = input_.size();
    std::array<char, 65536> bytes;
    const ssize_t got = receive(bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      throw CommandError(kUnreachable, path_ + ": the daemon has not replied within " +
                                           std::to_string(timeout_seconds_) + " s");
    if (got <= 0) throw Disconnected(path_);
    input_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

/// Receives bytes as recv(2) does, and keeps descriptors that come with them.
ssize_t AdminClient::receive(std::span<char> bytes) {
  iovec part{bytes.data(), bytes.size()};
  constexpr std::size_t kMost = 8;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMost)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= h->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(h) + at, sizeof descriptor);
      descriptors_.push_back(descriptor);
    }
  }
  return got;
}

Json AdminClient::whole_list(const std::string& method, const std::string& tenant) {
  Json params = Json::object();
  if (!tenant.empty()) params["tenant"] = tenant;
  Json list = Json::array();
  for (;;) {
    const Json page = read(method, params);
    for (const Json& entry : page.at(method)) list.push_back(entry);
    if (!page.contains("next")) return Json{{method, std::move(list)}};
    params["after"] = page.at("next");
  }
}

}  // namespace softhca::cli
