// A network port: frames in, frames out. Implementations: DPDK (port/dpdk), memory pair for tests,
// and wrappers (fault injection, capture). One engine owns a port; what others may call is marked.
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

/// One Ethernet frame in a buffer of the port. `token` is the port's own.
struct Frame {
  std::byte* data = nullptr;
  std::uint32_t length = 0;    ///< bytes from the Ethernet header on, no FCS
  std::uint32_t capacity = 0;  ///< room at data; only meaningful on frames from allocate()
  void* token = nullptr;
  /// Received as a train (train.hpp): payload of each of its datagrams but the last. 0: it is one
  /// packet.
  std::uint32_t segment = 0;

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
  std::uint64_t rx_trains = 0;   ///< of more than one packet
  std::uint64_t tx_trains = 0;
  std::uint64_t trains_refused = 0;  ///< sent as single packets: the device takes no trains
  // Where the kernel routes (KernelHeaders):
  std::uint64_t unreachable = 0;      ///< ICMP says that packets did not get to their destination
  std::uint64_t path_too_narrow = 0;  ///< packets longer than a link on their way carries
};

/// On a port of UDP sockets the kernel writes the headers below the transport, and what a port is
/// given of them only tells what to ask it for. It sets "don't fragment" in IPv4, and counts the
/// identification from 0 up in each train; a packet alone has 0. Of a received packet nobody is
/// told the identification: the header has 0 there.
struct KernelHeaders {
  static constexpr std::size_t kFlows = 8;
  /// Of UDP; each packet has one of these.
  std::array<std::uint16_t, kFlows> source_ports{};

  /// The one for all packets of a flow that would have the source port `wanted`.
  std::uint16_t source_port(std::uint16_t wanted) const { return source_ports[wanted % kFlows]; }
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
  /// Packets whose parts lie in several places, and trains; null: this port sends only frames that
  /// it allocated. Frames and trains go in the order they were handed over.
  virtual TrainSender* trains() { return nullptr; }
  /// Null: what the engine writes is what goes out.
  virtual const KernelHeaders* kernel_headers() const { return nullptr; }

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
