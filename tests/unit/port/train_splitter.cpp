// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/port/train_splitter.hpp"

#include <algorithm>
#include <cstring>

#include "daemon/port/frame_kind.hpp"

namespace softhca::port {

TrainSplitter::TrainSplitter(std::unique_ptr<Port> inner)
    : inner_(std::move(inner)),
      room_(inner_->mtu() + kEthernetOverhead),
      storage_(std::make_unique_for_overwrite<std::byte[]>(std::size_t{kBuffers} * room_)) {
  free_.reserve(kBuffers);
  for (std::size_t i = 0; i < kBuffers; ++i) free_.push_back(storage_.get() + i * room_);
}

TrainSplitter::~TrainSplitter() {
  if (train_) inner_->release({&train_, 1});
}

void TrainSplitter::release(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (frame.token == this)
      free_.push_back(frame.data);
    else
      inner_->release({&frame, 1});
  }
}

/// Makes a train current, unless one is. False: there are no more packets.
bool TrainSplitter::take_next() {
  if (train_) return true;
  if (inner_->receive({&train_, 1}) == 0) return false;
  head_ = train_.segment != 0 ? roce_offset(train_.bytes()) : 0;
  at_ = index_ = 0;
  return true;
}

/// Returns the next packet of the current train, or a null frame if it is longer than the link
/// carries.
Frame TrainSplitter::next() {
  const auto head = static_cast<std::uint32_t>(head_);
  const std::uint32_t left = train_.length - head - at_;
  const std::uint32_t bytes = head == 0 ? left : std::min(left, train_.segment);
  Frame packet;
  if (head + bytes <= room_) {
    packet = {free_.back(), head + bytes, 0, this};
    free_.pop_back();
    std::memcpy(packet.data, train_.data, head);
    std::memcpy(packet.data + head, train_.data + head + at_, bytes);
    if (head != 0)
      make_packet_head({packet.data, head}, network_offset(train_.bytes()), index_, bytes);
  }
  at_ += bytes;
  ++index_;
  if (at_ + head < train_.length) return packet;
  inner_->release({&train_, 1});
  train_ = {};
  return packet;
}

std::size_t TrainSplitter::receive(std::span<Frame> out) {
  std::size_t count = 0;
  while (count < out.size() && !free_.empty() && take_next())
    if (const Frame packet = next()) out[count++] = packet;
  return count;
}

void TrainSplitter::prepare_sleep() { inner_->prepare_sleep(); }

}  // namespace softhca::port
