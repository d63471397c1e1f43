// SPDX-License-Identifier: Apache-2.0

// Opens a DPDK device as a Port. Needs no DPDK header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/port/port.hpp"

namespace softhca::port {

struct DpdkPortOptions {
  /// "iface=NAME" (an existing interface, through net_af_packet), any DPDK virtual device with its
  /// arguments ("net_memif0,role=server,socket=/run/x.sock"), or a PCI address that start_eal() was
  /// given. device_args.hpp lists the defaults.
  std::string device;
  /// Packet buffers of this port, about 5 KB each, allocated when touched.
  std::uint32_t buffers = 4096;
  /// Bytes of an IP packet that the link carries; 0: those of the interface or device.
  std::uint32_t mtu = 0;
  /// Link address of a device that has none of its own (net_memif, net_tap, net_virtio_user),
  /// unless `device` names one. Zero: a random one.
  MacAddress mac;
};

/// Opens and starts the device. One thread at a time may use the port; the first call of receive()
/// registers its thread with DPDK. link_up() and counters() may cost a system call, so they are for
/// the control thread, not for each poll step. Errors name the device and the reason, as far as
/// DPDK reports it. REQUIRES: start_eal() succeeded.
Expected<std::unique_ptr<Port>> open_dpdk_port(const DpdkPortOptions& options);

}  // namespace softhca::port
