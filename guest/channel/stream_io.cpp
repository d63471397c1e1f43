// SPDX-License-Identifier: Apache-2.0

// How streams read and write the descriptors of local processes.
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "daemon/base/passed_descriptors.hpp"
#include "guest/channel/streams.hpp"

namespace softhca::guest {
namespace {

/// Frames of one stream before others get their turn.
constexpr int kMostReads = 8;
/// Requests of a connection without a reply. A process waits for each reply, unless a signal
/// interrupts it. More requests would have more descriptors in flight.
constexpr unsigned kMostUnanswered = 16;

}  // namespace

bool Streams::may_read(const Stream& stream) const {
  if (stream.ended) return false;
  if (is_discarding(stream)) return true;
  if (stream.close_received) return false;
  if (stream.kind == StreamKind::kEvent) return side_ == Side::kAgent && !stream.wake_due;
  if (side_ == Side::kAgent && stream.kind == StreamKind::kConnection &&
      stream.unanswered + stream.pending.size() >= kMostUnanswered)
    return false;
  return stream.credit >= kMaxFrame;
}

/// Watches the descriptor for what the stream may do next.
void Streams::arm(Stream& stream) {
  std::uint32_t events = 0;
  if (may_read(stream)) {
    if (outbox_.has_room()) {
      events |= EPOLLIN;
    } else if (!std::exchange(stream.is_blocked, true)) {
      blocked_.push_back(stream.number);
    }
  }
  if (!stream.pending.empty()) events |= EPOLLOUT;
  loop_.arm(stream.fd.get(), stream.watch, events);
}

void Streams::ready(Stream& stream, std::uint32_t events) {
  if (!stream.pending.empty()) write(stream);
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read(stream);
  if (!stream.ended) arm(stream);
}

void Streams::read(Stream& stream) {
  for (int i = 0; i < kMostReads && may_read(stream) && outbox_.has_room(); ++i) {
    const bool more = stream.kind == StreamKind::kEvent   ? read_event(stream)
                      : stream.kind == StreamKind::kBytes ? read_bytes(stream)
                                                          : read_record(stream);
    if (!more) return;
  }
}

bool Streams::read_event(Stream& stream) {
  std::uint64_t times;
  if (::read(stream.fd.get(), &times, sizeof times) != sizeof times) return false;
  stream.wake_due = true;
  set_due(stream);
  return false;
}

bool Streams::read_record(Stream& stream) {
  std::array<std::byte, abi::kMaxRecord> buffer;
  ReceivedRecord record;
  const std::size_t most = side_ == Side::kRelay ? abi::kMaxFds : 0;
  const Received received = guest::receive_record(stream.fd.get(), buffer, most, record);
  if (received == Received::kNothing) return false;
  if (received == Received::kEnd) {
    end(stream);
    return false;
  }
  if (is_discarding(stream)) return true;
  const std::span<const std::byte> bytes = std::span(buffer).first(record.bytes);
  if (side_ == Side::kAgent && stream.kind == StreamKind::kConnection &&
      owner_.answer(stream, bytes))
    return !stream.ended;
  std::vector<PassedDescriptor> descriptors;
  const auto fds = std::span(record.fds).first(record.descriptors);
  if (!fds.empty() && !owner_.describe(stream, fds, descriptors)) {
    end(stream);
    return false;
  }
  const RecordHead head{static_cast<std::uint32_t>(descriptors.size()), 0};
  const auto passed = std::as_bytes(std::span(descriptors));
  if (side_ == Side::kAgent && stream.kind == StreamKind::kConnection) ++stream.unanswered;
  stream.credit -= sizeof(FrameHeader) + sizeof head + passed.size() + bytes.size();
  outbox_.add(FrameKind::kRecord, stream.number, {bytes_of(head), passed, bytes});
  return true;
}

bool Streams::read_bytes(Stream& stream) {
  std::array<std::byte, abi::kMaxRecord> buffer;
  std::size_t bytes = 0;
  const Received received = receive_bytes(stream.fd.get(), buffer, bytes);
  if (received == Received::kNothing) return false;
  if (received == Received::kEnd) {
    end(stream);
    return false;
  }
  stream.credit -= sizeof(FrameHeader) + bytes;
  outbox_.add(FrameKind::kData, stream.number, {std::span(buffer).first(bytes)});
  return true;
}

/// Returns false if the local process takes no more now, or is gone: then reading finds its end.
bool Streams::write_one(Stream& stream, Delivery& delivery) {
  std::array<int, abi::kMaxFds> fds{};
  for (std::size_t i = 0; i < delivery.fds.size(); ++i) fds[i] = delivery.fds[i].get();
  const ssize_t sent =
      send_with_descriptors(stream.fd.get(), std::span(delivery.bytes).subspan(delivery.sent),
                            std::span(fds).first(delivery.fds.size()));
  if (sent < 0) {
    if (errno != EAGAIN) drop_pending(stream);
    return false;
  }
  delivery.sent += static_cast<std::size_t>(sent);
  return stream.kind != StreamKind::kBytes || delivery.sent == delivery.bytes.size();
}

void Streams::write(Stream& stream) {
  while (!stream.pending.empty() && write_one(stream, stream.pending.front())) {
    const Delivery& delivery = stream.pending.front();
    pending_bytes_ -= delivery.bytes.size();
    stream.owed += delivery.cost;
    stream.pending.pop_front();
    if (stream.owed >= kMaxFrame) set_due(stream);
  }
  if (stream.pending.empty() && stream.close_received && !stream.ended) finish(stream);
}

/// Writes to the daemon's eventfd, unless that would wait.
void Streams::wake(Stream& stream) {
  pollfd state{stream.fd.get(), POLLOUT, 0};
  const std::uint64_t once = 1;
  if (stream.ended || ::poll(&state, 1, 0) != 1 || (state.revents & POLLOUT) == 0) return;
  // It fails only if another process has filled the eventfd meanwhile, which wakes as well.
  (void)!::write(stream.fd.get(), &once, sizeof once);
}

}  // namespace softhca::guest
