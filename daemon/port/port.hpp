// A network port: frames in, frames out. Implementations: DPDK (port/dpdk), memory pair for tests,
// and wrappers (fault injection, capture). One engine owns a port; what others may call is marked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/net.hpp"

namespace softhca::port {

/// One Ethernet frame in a buffer of the port. `token` is the port's own.
struct Frame {
  std::byte* data = nullptr;
  std::uint32_t length = 0;    ///< bytes from the Ethernet header on, no FCS
  std::uint32_t capacity = 0;  ///< room at data; only meaningful on frames from allocate()
  void* token = nullptr;

  explicit operator bool() const { return data != nullptr; }
  std::span<const std::byte> bytes() const { return {data, length}; }
};

struct PortCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_missed = 0;   ///< lost before the daemon saw them, where the device counts them
  std::uint64_t tx_dropped = 0;  ///< refused by the device
};

class Port {
 public:
  virtual ~Port() = default;

  /// Fills `out` with received frames, returns how many. Each stays valid until release().
  virtual std::size_t receive(std::span<Frame> out) = 0;
  virtual void release(std::span<const Frame> frames) = 0;

  /// An empty frame to fill (set length, at most capacity), or a null one when the port has none
  /// left for the moment. It ends in transmit() or release().
  virtual Frame allocate() = 0;
  /// Takes the frame over. It may be held until flush(), which ends every poll step.
  virtual void transmit(const Frame& frame) = 0;
  virtual void flush() = 0;

  // --- any thread
  virtual MacAddress mac() const = 0;
  /// Bytes of an IP packet the link carries (without Ethernet header).
  virtual std::uint32_t mtu() const = 0;
  virtual bool link_up() const = 0;
  virtual PortCounters counters() const = 0;

  // --- the engine again
  /// A descriptor that becomes readable when frames wait, for an engine about to sleep, or -1 when
  /// the port has none (the engine then naps briefly). prepare_sleep() is called right before
  /// sleeping on it.
  virtual int wait_fd() const { return -1; }
  virtual void prepare_sleep() {}
};

}  // namespace softhca::port
