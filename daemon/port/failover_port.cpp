// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/failover_port.hpp"

#include <sys/epoll.h>

#include <algorithm>

#include "daemon/base/counter.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/port/socket_port.hpp"

namespace softhca::port {

namespace {

/// Loses what it is to send, as a cable that is pulled.
class AbsentLink final : public Port, private TrainSender {
 public:
  std::size_t receive(std::span<Frame> /*out*/) override { return 0; }
  void release(std::span<const Frame> /*frames*/) override {}
  Frame allocate() override {
    return {.data = lost_.data(), .capacity = static_cast<std::uint32_t>(lost_.size())};
  }
  void transmit(const Frame& /*frame*/) override { dropped_.add(); }
  void flush() override {}
  TrainSender* trains() override { return this; }
  MacAddress mac() const override { return {}; }
  std::uint32_t mtu() const override { return carried_mtu(UINT32_MAX); }
  bool link_up() const override { return false; }
  PortCounters counters() const override { return {.tx_dropped = dropped_.value()}; }

 private:
  TrainLimits limits() const override { return kSocketTrains; }
  void transmit(const Train& train) override { dropped_.add(train.packets); }

  std::array<std::byte, 8192> lost_;
  Counter dropped_;
};

}  // namespace

Expected<std::unique_ptr<Port>> FailoverPort::join(Links links) {
  UniqueFd wait(::epoll_create1(EPOLL_CLOEXEC));
  const unsigned in_use = links[0] == nullptr && links[1] != nullptr ? 1 : 0;
  for (auto& link : links) {
    if (link == nullptr) link = std::make_unique<AbsentLink>();
    epoll_event event{};
    event.events = EPOLLIN;
    if (!wait || (link->wait_fd() >= 0 &&
                  ::epoll_ctl(wait.get(), EPOLL_CTL_ADD, link->wait_fd(), &event) != 0))
      return system_error("port with a backup");
  }
  return std::unique_ptr<Port>(new FailoverPort(std::move(links), std::move(wait), in_use));
}

TrainSender* FailoverPort::trains() {
  return links_[0]->trains() != nullptr && links_[1]->trains() != nullptr ? this : nullptr;
}

TrainLimits FailoverPort::limits() const { return link().trains()->limits(); }

void FailoverPort::transmit(const Train& train) { link().trains()->transmit(train); }

std::uint32_t FailoverPort::mtu() const { return std::min(links_[0]->mtu(), links_[1]->mtu()); }

PortCounters FailoverPort::counters() const {
  PortCounters sum = links_[0]->counters();
  const PortCounters other = links_[1]->counters();
  sum.rx_frames += other.rx_frames;
  sum.rx_bytes += other.rx_bytes;
  sum.tx_frames += other.tx_frames;
  sum.tx_bytes += other.tx_bytes;
  sum.rx_missed += other.rx_missed;
  sum.tx_dropped += other.tx_dropped;
  sum.rx_trains += other.rx_trains;
  sum.tx_trains += other.tx_trains;
  sum.trains_refused += other.trains_refused;
  return sum;
}

void FailoverPort::prepare_sleep() {
  for (const auto& link : links_) link->prepare_sleep();
  discard_received(*links_[1 - link_in_use()]);
}

void FailoverPort::fail_over() {
  link().flush();
  discard_received(link());
  in_use_.store(1 - link_in_use(), std::memory_order_relaxed);
}

/// Both links are on one network, so frames come twice, or late. A flood is not discarded
/// in one go, since other work waits.
void FailoverPort::discard_received(Port& link) {
  std::array<Frame, 64> frames;
  for (int burst = 0; burst < 16; ++burst) {
    const std::size_t count = link.receive(frames);
    link.release(std::span(frames).first(count));
    if (count < frames.size()) return;
  }
}

}  // namespace softhca::port
