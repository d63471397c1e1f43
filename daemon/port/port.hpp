// SPDX-License-Identifier: Apache-2.0

// A network port, which receives and sends frames. Implementations: DPDK (port/dpdk), packet
// sockets (port/packet), UDP sockets (port/udp), two of these with one in use (failover_port.hpp),
// and a memory pair for tests. One engine owns a port; a comment marks the functions that other
// threads may call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/net.hpp"
#include "daemon/port/train.hpp"

namespace softhca::port {

/// Ethernet header and one VLAN tag.
inline constexpr std::uint32_t kEthernetOverhead = 18;

/// One Ethernet frame in a buffer of the port. `token` is private to the port.
struct Frame {
  std::byte* data = nullptr;
  std::uint32_t length = 0;    ///< bytes from the Ethernet header on, no FCS
  std::uint32_t capacity = 0;  ///< room at data; valid only for frames of allocate()
  void* token = nullptr;
  /// For a frame received as a train (train.hpp): payload of each of its datagrams but the last. 0:
  /// one packet.
  std::uint32_t segment = 0;

  explicit operator bool() const { return data != nullptr; }
  std::span<const std::byte> bytes() const { return {data, length}; }
};

struct PortCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_missed = 0;   ///< lost before the daemon read them, if the device counts them
  std::uint64_t tx_dropped = 0;  ///< refused by the device
  std::uint64_t rx_trains = 0;   ///< of more than one packet
  std::uint64_t tx_trains = 0;
  std::uint64_t trains_refused = 0;  ///< sent as single packets, because the device takes no trains
  // If the kernel routes (KernelHeaders):
  std::uint64_t unreachable = 0;      ///< ICMP reports that packets did not reach their destination
  std::uint64_t path_too_narrow = 0;  ///< packets longer than a link on their path carries
};

/// On a port of UDP sockets, the kernel writes the headers below the transport. The port uses the
/// headers that the engine wrote only to decide which settings to request. The kernel sets "don't
/// fragment" in IPv4. It counts the identification up from 0 in each train; a single packet has 0.
/// Sockets do not report the identification of a received packet, so the header has 0 there.
struct KernelHeaders {
  static constexpr std::size_t kFlows = 8;
  /// UDP source ports; each packet has one of them.
  std::array<std::uint16_t, kFlows> source_ports{};

  /// Returns the source port for all packets of a flow that would use the source port `wanted`.
  std::uint16_t source_port(std::uint16_t wanted) const { return source_ports[wanted % kFlows]; }
};

class Port {
 public:
  virtual ~Port() = default;

  /// Fills `out` with received frames and returns their number. Each stays valid until release().
  virtual std::size_t receive(std::span<Frame> out) = 0;
  virtual void release(std::span<const Frame> frames) = 0;

  /// Returns an empty frame to fill (set length, at most capacity), or a null frame if none is free
  /// for the moment. The frame ends in transmit() or release().
  virtual Frame allocate() = 0;
  /// Takes the frame. The port may hold it until flush(), which ends each poll step.
  virtual void transmit(const Frame& frame) = 0;
  virtual void flush() = 0;
  /// Returns the sender of trains and of packets in several pieces; null: this port sends only
  /// frames that it allocated. The port keeps the order of frames and trains.
  virtual TrainSender* trains() { return nullptr; }
  /// Null: the port sends the headers that the engine wrote.
  virtual const KernelHeaders* kernel_headers() const { return nullptr; }

  // --- any thread
  virtual MacAddress mac() const = 0;
  /// Returns the bytes of an IP packet that the link carries (without Ethernet header).
  virtual std::uint32_t mtu() const = 0;
  virtual bool link_up() const = 0;
  virtual PortCounters counters() const = 0;
  /// Returns the number of the link that carries frames; always 0 for a port with one link.
  virtual unsigned link_in_use() const { return 0; }
  /// True if the link in use has no carrier, and another one has. May cost system calls.
  virtual bool should_fail_over() const { return false; }

  // --- the engine again
  /// Returns a descriptor that becomes readable when frames wait, for an engine that is about to
  /// sleep. -1: the port has none, so the engine sleeps only briefly. The engine calls
  /// prepare_sleep() immediately before it sleeps on the descriptor.
  virtual int wait_fd() const { return -1; }
  virtual void prepare_sleep() {}
  /// Uses the other link from now on, with its link address. REQUIRES: should_fail_over() was true,
  /// and all packets were handed over by flush().
  virtual void fail_over() {}
};

}  // namespace softhca::port
