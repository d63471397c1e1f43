#include "daemon/port/fault.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "daemon/port/frame_kind.hpp"

namespace softhca::port {
namespace {

constexpr std::size_t kBurst = 64;
constexpr std::uint64_t kMostFramesPassed = 4;
constexpr std::size_t kCopySize = 9216;
/// The ICRC does not cover this byte of the base transport header (FECN, BECN, reserved).
constexpr std::size_t kUncoveredByte = 4;

bool can_hold(const FaultRates& r) { return r.reordering > 0 || r.delay > 0; }

}  // namespace

void flip_covered_bit(std::span<std::byte> datagram, std::mt19937_64& random) {
  std::size_t at = random() % (datagram.size() - 1);
  if (at >= kUncoveredByte) ++at;
  datagram[at] ^= std::byte(1 << random() % 8);
}

FaultStage::FaultStage(const FaultRates& rates, std::uint64_t seed, std::uint32_t max_held)
    : rates_(rates), random_(seed), max_held_(max_held) {}

/// True with the given probability. Draws a number even for probability 0 or 1, so that a change of
/// one rate does not change the draws of the others.
bool FaultStage::happens(double probability) {
  return static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
}

std::uint64_t FaultStage::one_to(std::uint64_t most) {
  return 1 + random_() % std::max<std::uint64_t>(most, 1);
}

void FaultStage::corrupt(Frame& frame, std::size_t roce) {
  const std::size_t length = frame.length - roce;
  if (length <= kUncoveredByte + 1) return;
  if (roce != 0) return flip_covered_bit({frame.data + roce, length}, random_);
  const std::size_t at = random_() % (length - 1);
  frame.data[at] ^= std::byte(1 << random_() % 8);
}

FaultStage::Fate FaultStage::decide(Frame& frame, std::size_t roce) {
  Fate fate;
  fate.lose = happens(rates_.loss);
  fate.duplicate = happens(rates_.duplication);
  const bool corrupted = happens(rates_.corruption);
  late_by_order_ = happens(rates_.reordering);
  const bool late = happens(rates_.delay);
  if (fate.lose) return {.lose = true};
  if (rates_.marking > 0 && happens(rates_.marking)) mark_congested({frame.data, frame.length});
  if (corrupted) corrupt(frame, roce);
  fate.hold = (late_by_order_ || late) && held_.size() < max_held_;
  return fate;
}

void FaultStage::hold(const Frame& frame) {
  if (late_by_order_) {
    held_.push_back(
        {frame, now_ + std::max(rates_.delay_steps, 1U), frames_ + one_to(kMostFramesPassed)});
  } else {
    held_.push_back({frame, now_ + one_to(rates_.delay_steps), UINT64_MAX});
  }
}

void FaultStage::passed() { ++frames_; }

Frame FaultStage::next_due() {
  const auto due = std::find_if(held_.begin(), held_.end(), [this](const Held& h) {
    return h.due_step <= now_ || h.due_frame <= frames_;
  });
  if (due == held_.end()) return {};
  const Frame frame = due->frame;
  held_.erase(due);
  return frame;
}

Frame FaultStage::next_held() {
  if (held_.empty()) return {};
  const Frame frame = held_.front().frame;
  held_.pop_front();
  return frame;
}

FaultPort::FaultPort(std::unique_ptr<Port> inner, const FaultOptions& options)
    : inner_(std::move(inner)),
      roce_only_(options.roce_only),
      holds_frames_(can_hold(options.receive) || can_hold(options.transmit)),
      rx_(options.receive, options.seed, options.max_held),
      tx_(options.transmit, ~options.seed, options.max_held) {
  if (options.receive.duplication > 0) copies_.resize(options.max_held * kCopySize);
  for (std::size_t at = 0; at < copies_.size(); at += kCopySize)
    free_copies_.push_back(copies_.data() + at);
}

FaultPort::~FaultPort() {
  while (Frame frame = rx_.next_held()) release({&frame, 1});
  while (Frame frame = tx_.next_held()) inner_->release({&frame, 1});
  for (const Frame& frame : ready_) release({&frame, 1});
}

Frame FaultPort::copy(const Frame& frame) {
  if (free_copies_.empty() || frame.length > kCopySize) return {};
  std::byte* to = free_copies_.back();
  free_copies_.pop_back();
  std::memcpy(to, frame.data, frame.length);
  return {to, frame.length, 0, this};
}

void FaultPort::release(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (frame.token == this)
      free_copies_.push_back(frame.data);
    else
      inner_->release({&frame, 1});
  }
}

void FaultPort::take_in(Frame frame) {
  const std::size_t roce = roce_offset(frame.bytes());
  if (roce == 0 && roce_only_) return ready_.push_back(frame);
  const auto fate = rx_.decide(frame, roce);
  if (fate.lose) return inner_->release({&frame, 1});
  if (fate.duplicate)
    if (Frame twin = copy(frame)) ready_.push_back(twin);
  if (fate.hold)
    rx_.hold(frame);
  else
    ready_.push_back(frame);
  rx_.passed();
  while (Frame due = rx_.next_due()) ready_.push_back(due);
}

std::size_t FaultPort::receive(std::span<Frame> out) {
  rx_.step();
  while (Frame due = rx_.next_due()) ready_.push_back(due);
  std::array<Frame, kBurst> burst;
  if (ready_.size() < out.size()) {
    const std::size_t n =
        inner_->receive({burst.data(), std::min(burst.size(), out.size() - ready_.size())});
    for (std::size_t i = 0; i < n; ++i) take_in(burst[i]);
  }
  std::size_t n = 0;
  for (; n < out.size() && !ready_.empty(); ++n) {
    out[n] = ready_.front();
    ready_.pop_front();
  }
  return n;
}

void FaultPort::send_duplicate(const Frame& frame) {
  Frame twin = inner_->allocate();
  if (!twin) return;
  if (twin.capacity < frame.length) return inner_->release({&twin, 1});
  std::memcpy(twin.data, frame.data, frame.length);
  twin.length = frame.length;
  inner_->transmit(twin);
}

void FaultPort::transmit(const Frame& given) {
  Frame frame = given;
  const std::size_t roce = roce_offset(frame.bytes());
  if (roce == 0 && roce_only_) return inner_->transmit(frame);
  const auto fate = tx_.decide(frame, roce);
  if (fate.lose) return inner_->release({&frame, 1});
  if (fate.duplicate) send_duplicate(frame);
  if (fate.hold)
    tx_.hold(frame);
  else
    inner_->transmit(frame);
  tx_.passed();
  while (Frame due = tx_.next_due()) inner_->transmit(due);
}

void FaultPort::flush() {
  tx_.step();
  while (Frame due = tx_.next_due()) inner_->transmit(due);
  inner_->flush();
}

}  // namespace softhca::port
