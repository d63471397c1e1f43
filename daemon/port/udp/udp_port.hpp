// SPDX-License-Identifier: Apache-2.0

// A port on UDP sockets, for users without privileges. The kernel resolves neighbours and routes.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/expected.hpp"
#include "daemon/port/socket_port.hpp"
#include "daemon/port/udp/datagram_buffers.hpp"
#include "daemon/port/udp/datagram_queue.hpp"

namespace softhca::port {

struct UdpPortOptions {
  Gid address;
  /// Bytes of an IP packet that all paths carry; 0: those of the address's interface.
  std::uint32_t mtu = 0;
};

/// Sends RoCE packets of its address, and no other frames; see KernelHeaders.
class UdpPort final : public SocketPort<DatagramBuffers, DatagramQueue> {
 public:
  /// Opens the port. `kept`: the socket by which an earlier port received (wait_fd()). It is used
  /// if it is still bound to the address. Error: no interface of the kernel has the address, or
  /// another process has its UDP port 4791.
  static Expected<std::unique_ptr<Port>> open(const UdpPortOptions& options, UniqueFd kept = {});

  const KernelHeaders* kernel_headers() const override { return &out().headers(); }
  PortCounters counters() const override;

 private:
  UdpPort(SocketPlace place, const Gid& address, DatagramQueue::Sockets senders,
          unsigned interface_index);
};

}  // namespace softhca::port
