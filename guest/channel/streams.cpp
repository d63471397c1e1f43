// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/streams.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace softhca::guest {

Stream* Streams::add(std::uint32_t number, StreamKind kind, UniqueFd fd) {
  if (number == 0 || streams_.size() >= kMaxStreams) return nullptr;
  const auto [entry, is_new] = streams_.try_emplace(number);
  if (!is_new) return nullptr;
  Stream& stream = entry->second;
  stream.number = number;
  stream.kind = kind;
  stream.fd = std::move(fd);
  stream.watch.ready = [this, &stream](std::uint32_t events) { ready(stream, events); };
  stream.ended = !stream.fd;
  if (stream.ended) set_due(stream);
  if (!stream.ended && (kind == StreamKind::kConnection || kind == StreamKind::kRecords))
    tell_empty_records(stream.fd.get());
  arm(stream);
  return &stream;
}

Stream* Streams::find(std::uint32_t number) {
  const auto found = streams_.find(number);
  return found == streams_.end() ? nullptr : &found->second;
}

bool Streams::receive(Frame frame) {
  if (frame.kind == FrameKind::kRecord) return receive_record(frame);
  // A stream that is over, because this end has refused it.
  Stream* const stream = find(frame.stream);
  if (stream == nullptr) return true;
  switch (frame.kind) {
    case FrameKind::kData:
      return receive_data(frame);
    case FrameKind::kClose:
      return receive_close(*stream);
    case FrameKind::kCredit:
      return receive_credit(*stream, frame);
    case FrameKind::kWake:
      if (side_ != Side::kRelay || stream->kind != StreamKind::kEvent) return false;
      wake(*stream);
      return true;
    default:
      return false;
  }
}

/// True if the relay may make this stream.
bool Streams::may_come(const PassedDescriptor& descriptor) {
  switch (static_cast<DescriptorKind>(descriptor.kind)) {
    case DescriptorKind::kRegion:
      return descriptor.stream == 0;
    case DescriptorKind::kEvent:
    case DescriptorKind::kRecords:
    case DescriptorKind::kBytes:
      return descriptor.stream >= kFirstOfRelay && find(descriptor.stream) == nullptr;
  }
  return false;
}

/// Closes streams that the relay has opened, unless they are there.
void Streams::refuse(std::span<const PassedDescriptor> descriptors) {
  for (const PassedDescriptor& descriptor : descriptors)
    add(descriptor.stream, StreamKind::kRecords, UniqueFd());
}

bool Streams::receive_record(Frame frame) {
  const std::size_t cost = sizeof(FrameHeader) + frame.payload.size();
  RecordHead head;
  if (!frame.take(head) || head.descriptors > (side_ == Side::kAgent ? abi::kMaxFds : 0))
    return false;
  std::vector<PassedDescriptor> descriptors(head.descriptors);
  for (PassedDescriptor& descriptor : descriptors)
    if (!frame.take(descriptor) || !may_come(descriptor)) return false;
  if (frame.payload.size() > abi::kMaxRecord) return false;
  Stream* const stream = find(frame.stream);
  if (stream == nullptr || stream->ended) {
    refuse(descriptors);
    return true;
  }
  const bool has_records =
      stream->kind == StreamKind::kConnection || stream->kind == StreamKind::kRecords;
  if (!has_records || stream->close_received || cost > stream->window) return false;
  stream->window -= cost;
  if (stream->unanswered != 0) --stream->unanswered;
  Delivery delivery{.bytes = {frame.payload.begin(), frame.payload.end()}, .fds = {}, .cost = cost};
  const bool is_reply = side_ == Side::kAgent && stream->kind == StreamKind::kConnection;
  if ((is_reply || !descriptors.empty()) && !owner_.make(*stream, descriptors, delivery)) {
    refuse(descriptors);
    end(*stream);
    return true;
  }
  add_pending(*stream, std::move(delivery));
  return true;
}

bool Streams::receive_data(const Frame& frame) {
  Stream& stream = *find(frame.stream);
  if (stream.ended) return true;
  const std::size_t cost = sizeof(FrameHeader) + frame.payload.size();
  if (stream.kind != StreamKind::kBytes || stream.close_received || cost > stream.window ||
      frame.payload.empty())
    return false;
  stream.window -= cost;
  add_pending(stream,
              {.bytes = {frame.payload.begin(), frame.payload.end()}, .fds = {}, .cost = cost});
  return true;
}

bool Streams::receive_close(Stream& stream) {
  if (std::exchange(stream.close_received, true)) return false;
  if (stream.close_sent) {
    erase(stream);
    return true;
  }
  // An eventfd has nothing to be taken before.
  if (!stream.ended && stream.pending.empty()) finish(stream);
  if (!stream.ended) arm(stream);
  return true;
}

bool Streams::receive_credit(Stream& stream, Frame frame) {
  CreditBody body;
  if (!frame.take(body) || body.bytes > kWindow - stream.credit) return false;
  stream.credit += body.bytes;
  if (!stream.ended) arm(stream);
  return true;
}

void Streams::deliver(Stream& stream, std::vector<std::byte> record, std::vector<UniqueFd> fds) {
  add_pending(stream, {.bytes = std::move(record), .fds = std::move(fds)});
}

void Streams::add_pending(Stream& stream, Delivery delivery) {
  pending_bytes_ += delivery.bytes.size();
  stream.pending.push_back(std::move(delivery));
  if (stream.pending.size() == 1) write(stream);
  // One program that does not read would keep others from being served.
  if (pending_bytes_ > kMaxPending) return end(stream);
  if (!stream.ended) arm(stream);
}

void Streams::drop_pending(Stream& stream) {
  for (const Delivery& delivery : stream.pending) {
    pending_bytes_ -= delivery.bytes.size();
    stream.owed += delivery.cost;
  }
  stream.pending.clear();
  if (stream.owed >= kMaxFrame) set_due(stream);
}

void Streams::end(Stream& stream) {
  if (std::exchange(stream.ended, true)) return;
  loop_.arm(stream.fd.get(), stream.watch, 0);
  stream.fd.reset();
  drop_pending(stream);
  set_due(stream);
  for (const std::uint32_t number : stream.events)
    if (Stream* const event = find(number); event != nullptr) end(*event);
  stream.events.clear();
}

void Streams::end_all() {
  for (auto& [number, stream] : streams_) end(stream);
}

/// The other end has closed the stream, and the local process has taken all that came.
void Streams::finish(Stream& stream) {
  if (side_ == Side::kAgent || stream.kind != StreamKind::kConnection) return end(stream);
  // When the daemon closes its end, the session has ended, and does not use memory any more.
  ::shutdown(stream.fd.get(), SHUT_WR);
}

/// True if the stream only waits for the daemon to end the session.
bool Streams::is_discarding(const Stream& stream) const {
  return side_ == Side::kRelay && stream.kind == StreamKind::kConnection && stream.close_received &&
         stream.pending.empty();
}

void Streams::set_due(Stream& stream) {
  if (std::exchange(stream.is_due, true)) return;
  due_.push_back(stream.number);
}

void Streams::send_due(Stream& stream) {
  stream.is_due = false;
  if (stream.ended) {
    if (std::exchange(stream.close_sent, true)) return;
    outbox_.add(FrameKind::kClose, stream.number, {});
    if (stream.close_received) erase(stream);
    return;
  }
  if (std::exchange(stream.wake_due, false)) {
    outbox_.add(FrameKind::kWake, stream.number, {});
    arm(stream);
  }
  if (stream.owed < kMaxFrame) return;
  const CreditBody body{static_cast<std::uint32_t>(stream.owed), 0};
  stream.window += std::exchange(stream.owed, 0);
  outbox_.add(FrameKind::kCredit, stream.number, {bytes_of(body)});
}

void Streams::flush() {
  while (!due_.empty() && outbox_.has_room()) {
    Stream* const stream = find(due_.front());
    due_.pop_front();
    if (stream != nullptr && stream->is_due) send_due(*stream);
  }
  if (!outbox_.has_room()) return;
  for (const std::uint32_t number : std::exchange(blocked_, {})) {
    Stream* const stream = find(number);
    if (stream == nullptr || !std::exchange(stream->is_blocked, false) || stream->ended) continue;
    arm(*stream);
  }
}

void Streams::erase(Stream& stream) {
  const std::uint32_t number = stream.number;
  end(stream);
  streams_.erase(number);
  owner_.closed(number);
}

std::vector<UniqueFd> Streams::clear() {
  std::vector<UniqueFd> connections;
  for (auto& [number, stream] : streams_) {
    loop_.arm(stream.fd.get(), stream.watch, 0);
    if (stream.kind == StreamKind::kConnection && stream.fd)
      connections.push_back(std::move(stream.fd));
  }
  streams_.clear();
  due_.clear();
  blocked_.clear();
  pending_bytes_ = 0;
  return connections;
}

}  // namespace softhca::guest
