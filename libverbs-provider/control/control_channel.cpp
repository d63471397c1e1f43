// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/control/control_channel.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "libverbs-provider/explain.hpp"

namespace softhca::provider {
namespace {

constexpr std::size_t kMaxParts = 4;

}  // namespace

int ControlChannel::connect(const char* path) {
  int fd = -1;
  const int error = connect_socket(path, fd);
  fd_.reset(fd);
  lost_.store(false, std::memory_order_relaxed);
  return error;
}

/// A lost channel stays lost. In a forked child, a thread that does not exist may hold the lock.
ControlChannel::Turn::Turn(ControlChannel& channel) : channel_(channel), locked_(!channel.lost()) {
  if (locked_) channel_.mutex_.lock();
}

ControlChannel::Turn::~Turn() {
  if (locked_) channel_.mutex_.unlock();
}

int ControlChannel::Turn::call(abi::Operation operation, std::span<const iovec> body,
                               std::span<std::byte> reply, ReceivedFds& fds) {
  if (channel_.lost()) return refuse_lost();
  const abi::RequestHeader header{static_cast<std::uint32_t>(operation), channel_.next_tag_++};
  return channel_.exchange(header, body, reply, fds);
}

/// Marks the connection as lost, because requests and replies no longer match.
int ControlChannel::broken(int error) {
  lost_.store(true, std::memory_order_relaxed);
  return error;
}

int ControlChannel::exchange(const abi::RequestHeader& header, std::span<const iovec> body,
                             std::span<std::byte> reply, ReceivedFds& fds) {
  if (!fd_.is_ours()) {
    refuse_lost();
    return broken(EBADF);
  }
  iovec parts[kMaxParts] = {{const_cast<abi::RequestHeader*>(&header), sizeof header}};
  std::size_t count = 1;
  for (const iovec& part : body) parts[count++] = part;
  if (const int error = send_record(fd_.get(), {parts, count})) {
    if (is_shortage(error)) return error;
    return error == EMSGSIZE ? EINVAL : broken(refuse_lost());
  }
  return receive(reply, header.tag, fds);
}

/// Polls for a while, because most replies arrive sooner than a sleeping processor wakes up.
void ControlChannel::wait_awake() const {
  constexpr std::int64_t kAwakeNs = 50'000;
  timespec begin{}, now{};
  ::clock_gettime(CLOCK_MONOTONIC, &begin);
  pollfd state{fd_.get(), POLLIN, 0};
  do {
    if (::poll(&state, 1, 0) != 0) return;
    ::sched_yield();
    ::clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1'000'000'000 + now.tv_nsec - begin.tv_nsec < kAwakeNs);
}

int ControlChannel::receive(std::span<std::byte> reply, std::uint32_t tag, ReceivedFds& fds) {
  abi::ReplyHeader header{};
  // The memory places, or the rest of the reason why the daemon refuses.
  std::byte rest[abi::kMaxRefusalText];
  iovec parts[] = {{&header, sizeof header}, {reply.data(), reply.size()}, {rest, sizeof rest}};
  wait_awake();
  const Received got = receive_reply(fd_.get(), parts, tag, fds);
  if (got.bytes == 0) return broken(refuse_lost());
  if (got.bytes < sizeof header || header.tag != tag) return broken(EPROTO);
  if (header.error > 0 && header.error != EPROTO) {
    const std::size_t bytes = got.bytes - sizeof header;
    const std::size_t begin = std::min(bytes, reply.size());
    return refuse_as_answered(header.error, reply.first(begin),
                              {rest, std::min(bytes - begin, sizeof rest)});
  }
  if (header.error != 0) return header.error > 0 ? header.error : broken(EPROTO);
  const bool whole = got.bytes >= sizeof header + reply.size();
  if (!whole || got.too_many_fds) return broken(EPROTO);
  if (got.bytes == sizeof header + reply.size() + sizeof(abi::MemoryPlaces)) {
    abi::MemoryPlaces places;
    std::memcpy(&places, rest, sizeof places);
    fds.set_places(places);
  }
  return 0;
}

bool ControlChannel::hung_up() {
  if (lost()) return true;
  pollfd state{fd_.get(), POLLRDHUP, 0};
  const bool hung = !fd_.is_ours() || (::poll(&state, 1, 0) > 0 &&
                                       (state.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0);
  if (!hung) return false;
  lost_.store(true, std::memory_order_relaxed);
  return true;
}

void ControlChannel::abandon() {
  lost_.store(true, std::memory_order_relaxed);
  fd_.reset();
}

}  // namespace softhca::provider
