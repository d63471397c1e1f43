// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_socket.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "daemon/base/system_error.hpp"

namespace softhca::control {
namespace {

// Bytes read at once; bounded, so that a client that sends much does not delay others.
constexpr std::size_t kPortion = std::size_t{64} << 10;

bool again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

AdminSocket::~AdminSocket() {
  epoll_.reset();  // it watches sockets that are closed later
  if (listener_) ::unlink(path_.c_str());
}

Outcome AdminSocket::open(KeptDescriptors& kept, const std::string& path,
                          const SocketPermissions& permissions) {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  auto listener = take_up_or_listen(kept, path, permissions, SOCK_STREAM);
  if (!listener) return listener.error();
  path_ = path;
  kept_ = std::move(listener->kept);
  listener_ = PeerSocket(std::move(listener->socket), calls_, owner_);
  if (!epoll_ || !watch(listener_.get(), nullptr, EPOLLIN, EPOLL_CTL_ADD))
    return system_error("admin socket");
  return {};
}

bool AdminSocket::watch(int fd, void* who, unsigned events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = who;
  return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

void AdminSocket::serve() {
  epoll_event event;
  if (::epoll_wait(epoll_.get(), &event, 1, 0) != 1) return;
  if (event.data.ptr == nullptr) return accept();
  serve(*static_cast<Client*>(event.data.ptr));
}

void AdminSocket::tick() {
  answered_ = 0;
  if (!armed_) armed_ = watch(listener_.get(), nullptr, EPOLLIN, EPOLL_CTL_MOD);
}

void AdminSocket::accept() {
  PeerSocket socket(
      UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)), calls_,
      owner_);
  if (!socket) {
    const bool lacking = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (lacking && !spare_.refuse_one(listener_.get(), calls_, owner_))
      armed_ = !watch(listener_.get(), nullptr, 0, EPOLL_CTL_MOD);
    return;
  }
  if (clients_.size() >= limits_.clients || calls_.stuck(owner_)) {
    const std::string text =
        error_reply(RpcCode::kInternalError, "too many clients of the admin socket") + "\n";
    [[maybe_unused]] const ssize_t sent =
        ::send(socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return;
  }
  Client& client = clients_.emplace_back();
  client.self = std::prev(clients_.end());
  client.socket = std::move(socket);
  client.peer = peer_identity(client.socket.get()).value_or(PeerIdentity{});
  if (!watch(client.socket.get(), &client, EPOLLIN, EPOLL_CTL_ADD)) end(client);
}

void AdminSocket::end(Client& client) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client.socket.get(), nullptr);
  clients_.erase(client.self);
}

/// Does one step for a client: writes its output, else answers a line, else reads. The beginning of
/// an answer goes out with it: the adapter may retire before the next step.
void AdminSocket::serve(Client& client) {
  if (!client.output.empty()) {
    if (!write(client)) return end(client);
  } else if (client.has_line()) {
    answer_line(client);
    if (!client.output.empty() && !write(client)) return end(client);
  } else if (!read(client)) {
    return end(client);
  }
  const bool due = !client.output.empty() || client.has_line();
  if (client.ended && !due) return end(client);
  // If a line is left to answer, the socket is watched for being writable, so that the next step
  // follows at once.
  if (!watch(client.socket.get(), &client, due ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD)) end(client);
}

/// Reads from a client. Returns false if the client is gone.
bool AdminSocket::read(Client& client) {
  std::array<char, kPortion> bytes;
  ssize_t got = peek(client.socket.get(), std::as_writable_bytes(std::span(bytes)));
  if (got > 0)
    got = ::recv(client.socket.get(), bytes.data(), static_cast<std::size_t>(got), MSG_DONTWAIT);
  if (got < 0) return again(errno);
  if (got == 0) {
    client.ended = true;
    if (client.input.empty()) return true;
    client.input += '\n';  // the last line may lack it
  }
  client.input.append(bytes.data(), static_cast<std::size_t>(got));
  client.searched = std::min(client.input.find('\n', client.searched), client.input.size());
  if (client.searched <= limits_.line) return true;
  client.output =
      error_reply(RpcCode::kInvalidRequest,
                  "the request is too long: at most " + std::to_string(limits_.line) + " bytes") +
      "\n";
  client.input.clear();
  client.searched = 0;
  client.ended = true;
  return true;
}

void AdminSocket::answer_line(Client& client) {
  ++answered_;
  std::string_view line(client.input.data(), client.searched);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find_first_not_of(" \t") != std::string_view::npos)
    client.output = answer(methods_, line, limits_.rpc, client.peer, &client.descriptors);
  if (!client.output.empty()) client.output += '\n';
  client.input.erase(0, client.searched + 1);
  client.searched = std::min(client.input.find('\n'), client.input.size());
}

/// Writes to a client. Returns false if the client is gone.
bool AdminSocket::write(Client& client) {
  std::vector<int> descriptors;
  for (const UniqueFd& descriptor : client.descriptors) descriptors.push_back(descriptor.get());
  const ssize_t sent =
      send_some(client.socket.get(),
                std::as_bytes(std::span(client.output)).subspan(client.written), descriptors);
  if (sent < 0) return again(errno);
  client.descriptors.clear();
  client.written += static_cast<std::size_t>(sent);
  if (client.written < client.output.size()) return true;
  client.output = {};
  client.written = 0;
  return true;
}

}  // namespace softhca::control
