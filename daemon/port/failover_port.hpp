// SPDX-License-Identifier: Apache-2.0

// A port with two links to one network. One of them carries all frames. The other takes over when
// the first loses its carrier, and stays in use until it loses its own.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/port/port.hpp"

namespace softhca::port {

class FailoverPort final : public Port, private TrainSender {
 public:
  using Links = std::array<std::unique_ptr<Port>, 2>;

  /// The first link is in use. One that is null is absent: it never has a carrier, and is not in
  /// use at the start unless both are. Error: no descriptor is left. REQUIRES: the links have a
  /// descriptor to wait on, and no kernel_headers().
  static Expected<std::unique_ptr<Port>> join(Links links);

  std::size_t receive(std::span<Frame> out) override { return link().receive(out); }
  void release(std::span<const Frame> frames) override { link().release(frames); }
  Frame allocate() override { return link().allocate(); }
  void transmit(const Frame& frame) override { link().transmit(frame); }
  void flush() override { link().flush(); }
  /// Null if one of the links does not send trains.
  TrainSender* trains() override;

  /// Returns the address of the link in use.
  MacAddress mac() const override { return link().mac(); }
  /// Returns what both links carry.
  std::uint32_t mtu() const override;
  bool link_up() const override { return links_[0]->link_up() || links_[1]->link_up(); }
  /// Returns the sums of both links.
  PortCounters counters() const override;
  int wait_fd() const override { return wait_.get(); }
  /// Also discards what the other link has received.
  void prepare_sleep() override;

  unsigned link_in_use() const override { return in_use_.load(std::memory_order_relaxed); }
  bool should_fail_over() const override {
    return !link().link_up() && links_[1 - link_in_use()]->link_up();
  }
  void fail_over() override;

 private:
  FailoverPort(Links links, UniqueFd wait, unsigned in_use)
      : links_(std::move(links)), wait_(std::move(wait)), in_use_(in_use) {}

  // --- TrainSender
  TrainLimits limits() const override;
  void transmit(const Train& train) override;

  Port& link() const { return *links_[link_in_use()]; }
  void discard_received(Port& link);

  Links links_;
  UniqueFd wait_;                 ///< epoll descriptor over both
  std::atomic<unsigned> in_use_;  ///< writer: the engine
};

}  // namespace softhca::port
