// SPDX-License-Identifier: Apache-2.0

// A started DPDK device with one receive and one transmit queue.
//
// Drivers that copy frames on transmission take the payload from the tenant's memory: a frame is a
// chain of buffers, of which some refer to memory outside the pool. For other drivers, which might
// read the memory later, each packet is copied into one buffer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/base/counter.hpp"
#include "daemon/port/port.hpp"
#include "daemon/port/wake_socket.hpp"

struct rte_mbuf;
struct rte_mbuf_ext_shared_info;
struct rte_mempool;

namespace softhca::port {

/// A device as open_dpdk_port() found it.
struct DpdkDevice {
  std::uint16_t id = 0;         ///< DPDK's port number
  std::string name;             ///< DPDK's device name
  rte_mempool* pool = nullptr;  ///< owned by the port
  /// Buffers without data room, to refer to other memory; owned by the port. Null: the driver does
  /// not copy frames on transmission.
  rte_mempool* references = nullptr;
  MacAddress mac;
  std::uint32_t mtu = 0;
  std::uint32_t longest_frame = 0;  ///< transmit() drops and counts longer ones
  std::string interface;            ///< kernel interface below, or empty
  bool peer_may_vanish = false;     ///< memif: check the link before each burst
  bool dials = false;               ///< memif client: connects again when the peer returns
  std::optional<WakeSocket> wake;
};

class DpdkPort final : public Port, private TrainSender {
 public:
  explicit DpdkPort(DpdkDevice device);
  ~DpdkPort() override;
  DpdkPort(const DpdkPort&) = delete;
  DpdkPort& operator=(const DpdkPort&) = delete;

  std::size_t receive(std::span<Frame> out) override;
  void release(std::span<const Frame> frames) override;
  Frame allocate() override;
  void transmit(const Frame& frame) override;
  void flush() override;
  TrainSender* trains() override { return device_.references != nullptr ? this : nullptr; }

  MacAddress mac() const override { return device_.mac; }
  std::uint32_t mtu() const override { return device_.mtu; }
  bool link_up() const override;
  PortCounters counters() const override;
  int wait_fd() const override { return device_.wake ? device_.wake->fd() : -1; }
  void prepare_sleep() override;

 private:
  static constexpr std::size_t kBurst = 64;
  /// Frames that the device has not taken yet. When half of them are used, allocate() and limits()
  /// refuse, so that the engine stops making packets before any is dropped. The other half is for
  /// packets under construction.
  static constexpr std::size_t kBacklog = 512;

  // --- TrainSender
  TrainLimits limits() const override;
  void transmit(const Train& train) override;

  static void redial(void* port);
  void adopt_thread();
  /// True if a packet may be made.
  bool has_room() const { return backlog_count_ < kBacklog / 2; }
  void queue(rte_mbuf* m);
  rte_mbuf* gather(const Train& train);
  bool append(rte_mbuf& frame, const iovec& piece);
  void send_backlog();
  void own_backlog();
  bool carrier() const;
  std::size_t burst(std::span<Frame> out);
  Frame accept(rte_mbuf* m);
  void drop_backlog();

  DpdkDevice device_;
  bool adopted_ = false;
  std::array<rte_mbuf*, kBacklog> backlog_{};
  std::size_t backlog_count_ = 0;
  /// Frames that arrived between the engine's last receive() and prepare_sleep().
  std::array<Frame, kBurst> stash_{};
  std::size_t stash_begin_ = 0, stash_end_ = 0;
  /// Counts references to memory outside the pool. That memory is not freed here.
  std::unique_ptr<rte_mbuf_ext_shared_info> outside_;
  Counter rx_dropped_, tx_dropped_;
  /// Held for DPDK calls on the device by all threads except the engine's: drivers do not promise
  /// that such calls may run in parallel.
  mutable std::mutex device_calls_;
};

}  // namespace softhca::port
