// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/memory_port.hpp"

#include <bit>
#include <cassert>

namespace softhca::port {

MemoryLane::Ring::Ring(std::uint32_t buffers) : slots(std::bit_ceil(buffers)) {}

bool MemoryLane::Ring::pop(Frame& frame) {
  const std::uint32_t at = tail.load(std::memory_order_relaxed);
  if (at == head.load(std::memory_order_acquire)) return false;
  frame = slots[at & (slots.size() - 1)];
  tail.store(at + 1, std::memory_order_release);
  return true;
}

void MemoryLane::Ring::push(const Frame& frame) {
  const std::uint32_t at = head.load(std::memory_order_relaxed);
  assert(at - tail.load(std::memory_order_acquire) < slots.size());
  slots[at & (slots.size() - 1)] = frame;
  head.store(at + 1, std::memory_order_release);
}

MemoryLane::MemoryLane(std::uint32_t buffers, std::uint32_t buffer_size)
    : buffer_size_(buffer_size),
      storage_(std::size_t{buffers} * buffer_size),
      sent_(buffers),
      returned_(buffers) {
  spare_.reserve(buffers);
  for (std::uint32_t i = 0; i < buffers; ++i)
    spare_.push_back(storage_.data() + std::size_t{i} * buffer_size);
}

Frame MemoryLane::take() {
  Frame frame;
  if (!spare_.empty()) {
    frame.data = spare_.back();
    spare_.pop_back();
  } else if (!returned_.pop(frame)) {
    return {};
  }
  return {frame.data, 0, buffer_size_, this};
}

void MemoryLane::put_back(const Frame& frame) { spare_.push_back(frame.data); }

void MemoryLane::push(const Frame& frame) { sent_.push(frame); }

Frame MemoryLane::pop() {
  Frame frame;
  sent_.pop(frame);
  return frame;
}

void MemoryLane::give_back(const Frame& frame) { returned_.push(frame); }

std::pair<std::unique_ptr<MemoryPort>, std::unique_ptr<MemoryPort>> MemoryPort::make_pair(
    const Options& options) {
  std::array<std::unique_ptr<MemoryPort>, 2> ends;
  std::array<std::shared_ptr<MemoryLane>, 2> lanes;
  for (auto& lane : lanes)
    lane = std::make_shared<MemoryLane>(options.buffers, options.mtu + kEthernetOverhead);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ends[i].reset(new MemoryPort);
    ends[i]->out_ = lanes[i];
    ends[i]->in_ = lanes[1 - i];
    ends[i]->held_.reserve(options.buffers);
    ends[i]->mac_ = options.mac[i];
    ends[i]->mtu_ = options.mtu;
  }
  return {std::move(ends[0]), std::move(ends[1])};
}

std::size_t MemoryPort::receive(std::span<Frame> out) {
  std::size_t n = 0;
  while (n < out.size()) {
    const Frame frame = in_->pop();
    if (!frame) break;
    ++counters_.rx_frames;
    counters_.rx_bytes += frame.length;
    out[n++] = frame;
  }
  return n;
}

void MemoryPort::release(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (out_->owns(frame)) {
      out_->put_back(frame);
    } else {
      assert(in_->owns(frame));
      in_->give_back(frame);
    }
  }
}

void MemoryPort::transmit(const Frame& frame) {
  assert(out_->owns(frame) && frame.length <= frame.capacity);
  held_.push_back(frame);
}

void MemoryPort::flush() {
  for (const Frame& frame : held_) {
    if (!up_) {
      ++counters_.tx_dropped;
      out_->put_back(frame);
      continue;
    }
    ++counters_.tx_frames;
    counters_.tx_bytes += frame.length;
    out_->push(frame);
  }
  held_.clear();
}

}  // namespace softhca::port
