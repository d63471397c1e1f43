// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/message_buffers.hpp"

#include <algorithm>

#include "daemon/port/frame_kind.hpp"

namespace softhca::port {
namespace {

constexpr std::size_t kStride = 65536 + 2 * 64;

}  // namespace

MessageBuffers::MessageBuffers()
    : storage_(std::make_unique_for_overwrite<std::byte[]>(kBuffers * kStride)) {
  static_assert(kHeadroom + kLongest <= kStride);
  for (std::size_t i = 0; i < kBuffers; ++i) {
    buffers_[i].data = storage_.get() + i * kStride + kHeadroom;
    free_[i] = &buffers_[i];
  }
}

std::size_t MessageBuffers::receive(int fd, std::span<Frame> out) {
  const std::size_t wanted = std::min({out.size(), free_count_, burst_});
  for (std::size_t i = 0; i < wanted; ++i) {
    Buffer& buffer = *free_[free_count_ - 1 - i];
    msghdr& header = messages_[i].msg_hdr;
    header.msg_control = buffer.beside.data();
    header.msg_controllen = buffer.beside.size();
    header.msg_flags = 0;
    offer(header, buffer);
  }
  const int got =
      recvmmsg(fd, messages_.data(), static_cast<unsigned>(wanted), MSG_DONTWAIT, nullptr);
  // The kernel reports an error other than "none" (the interface went down) once.
  if (got <= 0) return 0;
  std::size_t kept = 0;
  bool trains = false;
  std::array<Buffer*, kBurst> dropped;
  std::size_t dropped_count = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
    Buffer* buffer = free_[--free_count_];
    const bool whole = (messages_[i].msg_hdr.msg_flags & MSG_TRUNC) == 0;
    Frame frame = whole ? accept(messages_[i], *buffer) : Frame{};
    if (!frame) {
      counters_.dropped.add();
      dropped[dropped_count++] = buffer;
      continue;
    }
    frame.token = buffer;
    count(frame);
    trains |= frame.segment != 0;
    out[kept++] = frame;
  }
  for (std::size_t i = 0; i < dropped_count; ++i) free_[free_count_++] = dropped[i];
  burst_ = trains ? kBurstOfTrains : std::min(2 * burst_, kBurst);
  return kept;
}

/// Counts a frame or a train. A train of one packet counts as a single packet.
void MessageBuffers::count(Frame& frame) {
  std::uint64_t packets = 1;
  const std::size_t head = roce_offset(frame.bytes());
  const std::size_t payload = frame.length - head;
  if (frame.segment != 0 && frame.segment < payload) {
    packets = (payload - 1) / frame.segment + 1;
    counters_.trains.add();
  } else {
    frame.segment = 0;
  }
  counters_.frames.add(packets);
  counters_.bytes.add(frame.length + (packets - 1) * head);
}

void MessageBuffers::release(std::span<const Frame> frames) {
  for (const Frame& frame : frames) free_[free_count_++] = static_cast<Buffer*>(frame.token);
}

}  // namespace softhca::port
