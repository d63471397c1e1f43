// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/channel.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softhca::guest {

Channel::Channel(EventLoop& loop, ChannelUser& user) : loop_(loop), user_(user) {
  watch_.ready = [this](std::uint32_t events) { ready(events); };
}

void Channel::open(UniqueFd fd) {
  close();
  fd_ = std::move(fd);
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
  struct stat info;
  is_socket_ = ::fstat(fd_.get(), &info) == 0 && S_ISSOCK(info.st_mode);
  loop_.arm(fd_.get(), watch_, EPOLLIN);
}

void Channel::close() {
  loop_.arm(fd_.get(), watch_, 0);
  fd_.reset();
  reader_.reset();
  outbox_.clear();
}

void Channel::fail() {
  close();
  user_.disconnected();
}

void Channel::ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if (fd_ && (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read();
}

void Channel::read() {
  const auto room = reader_.room();
  const ssize_t got = ::read(fd_.get(), room.data(), room.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return fail();
  reader_.filled(static_cast<std::size_t>(got));
  hand_out();
}

void Channel::hand_out() {
  Frame frame;
  while (fd_) {
    const FrameReader::Result result = reader_.next(frame);
    if (result == FrameReader::Result::kMore) return;
    if (result != FrameReader::Result::kFrame) {
      user_.lost(result == FrameReader::Result::kLost);
    } else if (!user_.handle(frame)) {
      reader_.search();
      user_.lost(true);
    }
  }
}

ssize_t Channel::write_some(std::span<const std::byte> bytes) const {
  if (is_socket_) return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return ::write(fd_.get(), bytes.data(), bytes.size());
}

void Channel::flush() {
  while (fd_ && !outbox_.is_empty()) {
    const ssize_t sent = write_some(outbox_.front());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent <= 0) return fail();
    outbox_.written(static_cast<std::size_t>(sent));
  }
  loop_.arm(fd_.get(), watch_, outbox_.is_empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

}  // namespace softhca::guest
