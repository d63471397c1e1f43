// SPDX-License-Identifier: Apache-2.0

// Common part of the ports on kernel sockets.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/counter.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/port/frame_pool.hpp"
#include "daemon/port/kernel_guard.hpp"
#include "daemon/port/port.hpp"

namespace softhca::port {

/// Location of a port.
struct SocketPlace {
  UniqueFd fd;  ///< the socket that receives
  std::string interface;
  MacAddress mac;
  std::uint32_t mtu = 0;
};

/// Returns the MTU of a port: `mtu`, which is that of the interface or the operator's, but at most
/// what fits in the port's frames.
inline std::uint32_t carried_mtu(std::uint32_t mtu) {
  constexpr std::uint32_t kMost = FramePool::kLongestFrame - kEthernetOverhead;
  return mtu < kMost ? mtu : kMost;
}

/// `In`: MessageBuffers. `Out`: a queue of frames and trains to send, until flush().
template <class In, class Out>
class SocketPort : public Port, public TrainSender {
 public:
  std::size_t receive(std::span<Frame> out) override { return in_.receive(place_.fd.get(), out); }
  void release(std::span<const Frame> frames) override {
    for (const Frame& frame : frames) {
      if (frames_.owns(frame))
        frames_.give_back(frame);
      else
        in_.release({&frame, 1});
    }
  }
  Frame allocate() override {
    if (frames_.empty()) flush();
    if (frames_.empty() || out_.is_blocked()) return {};
    return frames_.take();
  }
  void transmit(const Frame& frame) override {
    assert(frames_.owns(frame) && frame.length <= frame.capacity);
    if (frame.length > place_.mtu + kEthernetOverhead) {
      too_long_.add();
      return frames_.give_back(frame);
    }
    if (out_.is_full(1)) flush();
    out_.add(frame.bytes());
    frames_.keep(frame);
  }
  void flush() override {
    out_.flush();
    (void)out_.is_blocked();
    frames_.flushed();
  }
  TrainSender* trains() override { return this; }

  TrainLimits limits() const override { return out_.limits(); }
  void transmit(const Train& train) override {
    if (out_.is_full(train.pieces.size())) flush();
    out_.add(train);
  }

  /// Returns that of the interface, or zero if the interface has none.
  MacAddress mac() const override { return place_.mac; }
  std::uint32_t mtu() const override { return place_.mtu; }
  bool link_up() const override { return interface_running(place_.interface); }
  PortCounters counters() const override {
    const auto& in = in_.counters();
    const auto& out = out_.counters();
    return {.rx_frames = in.frames.value(),
            .rx_bytes = in.bytes.value(),
            .tx_frames = out.frames.value(),
            .tx_bytes = out.bytes.value(),
            .rx_missed = in.dropped.value(),
            .tx_dropped = out.dropped.value() + too_long_.value(),
            .rx_trains = in.trains.value(),
            .tx_trains = out.trains.value(),
            .trains_refused = out.refused.value()};
  }
  /// Returns the socket, which is readable while frames wait.
  int wait_fd() const override { return place_.fd.get(); }

 protected:
  template <class MakeIn, class MakeOut>
  SocketPort(SocketPlace place, MakeIn make_in, MakeOut make_out)
      : place_(std::move(place)), in_(make_in()), out_(make_out(place_.fd.get())) {}

  int fd() const { return place_.fd.get(); }
  const Out& out() const { return out_; }

 private:
  SocketPlace place_;
  In in_;
  Out out_;
  FramePool frames_;
  Counter too_long_;
};

}  // namespace softhca::port
