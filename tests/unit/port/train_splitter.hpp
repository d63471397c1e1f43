// SPDX-License-Identifier: Apache-2.0

// A port without trains, for tests that inspect single packets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/port/port.hpp"

namespace softhca::port {

/// Cuts trains that the wrapped port receives into packets, in its own buffers, and does not send
/// trains. Costs a copy of all received packets.
class TrainSplitter final : public Port {
 public:
  explicit TrainSplitter(std::unique_ptr<Port> inner);
  ~TrainSplitter() override;

  std::size_t receive(std::span<Frame> out) override;
  void release(std::span<const Frame> frames) override;
  Frame allocate() override { return inner_->allocate(); }
  void transmit(const Frame& frame) override { inner_->transmit(frame); }
  void flush() override { inner_->flush(); }

  const KernelHeaders* kernel_headers() const override { return inner_->kernel_headers(); }
  MacAddress mac() const override { return inner_->mac(); }
  std::uint32_t mtu() const override { return inner_->mtu(); }
  bool link_up() const override { return inner_->link_up(); }
  PortCounters counters() const override { return inner_->counters(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  void prepare_sleep() override;

 private:
  static constexpr std::uint32_t kBuffers = 2048;

  bool take_next();
  Frame next();

  std::unique_ptr<Port> inner_;
  std::uint32_t room_;  ///< of a buffer
  std::unique_ptr<std::byte[]> storage_;
  std::vector<std::byte*> free_;
  Frame train_;              ///< current train, or a single packet
  std::size_t head_ = 0;     ///< bytes of its headers; 0: not RoCE, so it is not cut
  std::uint32_t at_ = 0;     ///< payload bytes already delivered
  std::uint32_t index_ = 0;  ///< of the next packet
};

}  // namespace softhca::port
