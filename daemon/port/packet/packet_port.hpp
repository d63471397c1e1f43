// SPDX-License-Identifier: Apache-2.0

// A port on a kernel interface, through a packet socket.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/port/packet/receive_buffers.hpp"
#include "daemon/port/packet/transmit_queue.hpp"
#include "daemon/port/socket_port.hpp"

namespace softhca::port {

struct PacketPortOptions {
  std::string interface;
  /// Bytes of an IP packet that the link carries; 0: those of the interface.
  std::uint32_t mtu = 0;
};

class PacketPort final : public SocketPort<ReceiveBuffers, TransmitQueue> {
 public:
  /// Opens the port. `kept`: the socket of an earlier port (wait_fd()). It is used if its interface
  /// still exists. Error: no such interface, not an Ethernet interface, or no CAP_NET_RAW.
  static Expected<std::unique_ptr<Port>> open(const PacketPortOptions& options, UniqueFd kept = {});

  /// False also if the interface was removed, even if there is another one of its name.
  bool link_up() const override;
  PortCounters counters() const override;

 private:
  PacketPort(SocketPlace place, int index);

  int index_;  ///< of the interface

  /// Guards the kernel's count of frames that it dropped for lack of room. Reading resets that
  /// count.
  mutable std::mutex counting_;
  mutable std::uint64_t missed_ = 0;
};

}  // namespace softhca::port
