// SPDX-License-Identifier: Apache-2.0

// One side of a benchmark: the device, and for each test its memory and connected queue pairs.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/verbs/peer.hpp"

namespace softhca::bench {

class Device {
 public:
  /// Opens a device; empty name: the first one. Ends the program if there is none.
  Device(const std::string& name, int gid_index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  const ibv_gid& gid() const { return gid_; }
  std::uint8_t gid_index() const { return gid_index_; }
  std::uint32_t active_mtu() const { return active_mtu_; }
  std::string name() const { return ibv_get_device_name(context_->device); }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_gid gid_{};
  std::uint8_t gid_index_;
  std::uint32_t active_mtu_ = 0;
};

/// Page-aligned memory; all pages were touched.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  char* data_;
};

/// Returns the number of pairs of a send and a receive area for `queue_pairs` queue pairs. Each has
/// its own, within 32 MiB of send areas in all; beyond that they share.
std::uint32_t area_pairs(std::uint64_t size, std::uint32_t queue_pairs);

/// The queue pairs of one test, connected to those of the other side.
class Endpoint {
 public:
  /// Both sides must construct theirs at the same time.
  Endpoint(const Device& device, const TestSpec& spec, Peer& peer);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Posts `count` messages in one chain; the last is signalled, and its wr_id is `qp`.
  void post(std::uint32_t qp, std::uint32_t count);
  void post_receives(std::uint32_t qp, std::uint32_t count);
  /// Polls completions. Their wr_id is the index of the queue pair. Ends the program at an error.
  int poll(ibv_wc* completions, int most);
  /// How many messages have left and have arrived.
  struct Messages {
    std::uint32_t sent = 0, received = 0;
  };
  /// Polls up to 16 completions, and posts a receive for each that has completed.
  Messages poll_messages();
  /// Sleeps until a receive has completed since the last call. REQUIRES: spec.measure is kEcho.
  void await_receive();

  volatile char* send_area(std::uint32_t qp) const { return buffer_.data() + offset(qp); }
  volatile char* receive_area(std::uint32_t qp) const {
    return buffer_.data() + offset(qp) + stride_;
  }

 private:
  struct Address {
    std::uint32_t qpn, psn;
    std::uint64_t addr;
    std::uint32_t rkey, reserved;
    ibv_gid gid;
  };
  std::size_t offset(std::uint32_t qp) const { return std::size_t{qp % areas_} * 2 * stride_; }

  TestSpec spec_;
  std::uint32_t areas_;
  std::size_t stride_;
  Buffer buffer_;
  ibv_mr* mr_;
  ibv_comp_channel* channel_ = nullptr;  ///< of an echo test
  unsigned events_ = 0;                  ///< taken from it
  ibv_cq* cq_;
  std::vector<ibv_qp*> qps_;
  std::vector<Address> remote_;
};

}  // namespace softhca::bench
