// SPDX-License-Identifier: Apache-2.0

// Two ports joined by rings in memory, for tests and simulations: each receives what the other
// sends. A thread of its own may drive each end.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/port/port.hpp"

namespace softhca::port {

/// One direction of the link. Its buffers belong to the sender, and the receiver returns them.
class MemoryLane {
 public:
  MemoryLane(std::uint32_t buffers, std::uint32_t buffer_size);

  // Sender's thread only.
  Frame take();
  void put_back(const Frame& frame);  ///< was taken, but not sent
  void push(const Frame& frame);      ///< makes it visible to the receiver
  // Receiver's thread only.
  Frame pop();
  void give_back(const Frame& frame);  ///< was received, and is no longer used

  bool owns(const Frame& frame) const { return frame.token == this; }

 private:
  /// Single producer, single consumer. Never overflows, because it has room for all buffers.
  struct Ring {
    explicit Ring(std::uint32_t buffers);
    bool pop(Frame& frame);
    void push(const Frame& frame);

    std::vector<Frame> slots;
    std::atomic<std::uint32_t> head{0};  ///< written by the producer, release
    std::atomic<std::uint32_t> tail{0};  ///< written by the consumer, release
  };

  std::uint32_t buffer_size_;
  std::vector<std::byte> storage_;
  std::vector<std::byte*> spare_;  ///< used by the sender alone
  Ring sent_;
  Ring returned_;
};

class MemoryPort final : public Port {
 public:
  struct Options {
    std::uint32_t buffers = 1024;  ///< in each direction
    std::uint32_t mtu = 4500;
    std::array<MacAddress, 2> mac = {MacAddress{{2, 0, 0, 0, 0, 1}},
                                     MacAddress{{2, 0, 0, 0, 0, 2}}};
  };
  static std::pair<std::unique_ptr<MemoryPort>, std::unique_ptr<MemoryPort>> make_pair(
      const Options& options);
  static std::pair<std::unique_ptr<MemoryPort>, std::unique_ptr<MemoryPort>> make_pair() {
    return make_pair(Options{});
  }

  std::size_t receive(std::span<Frame> out) override;
  void release(std::span<const Frame> frames) override;
  Frame allocate() override { return out_->take(); }
  /// Held until flush(), so that tests detect an engine that forgets to flush.
  void transmit(const Frame& frame) override;
  void flush() override;

  MacAddress mac() const override { return mac_; }
  std::uint32_t mtu() const override { return mtu_; }
  bool link_up() const override { return up_; }
  PortCounters counters() const override { return counters_; }

  /// Sets the link of this end. While it is down, frames that this end sends are dropped and
  /// counted.
  void set_link(bool up) { up_ = up; }

 private:
  MemoryPort() = default;

  std::shared_ptr<MemoryLane> out_, in_;
  std::vector<Frame> held_;
  MacAddress mac_;
  std::uint32_t mtu_ = 0;
  bool up_ = true;
  PortCounters counters_;
};

}  // namespace softhca::port
