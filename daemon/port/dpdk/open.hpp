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
  /// arguments ("net_memif0,role=server,socket=/run/x.sock"), or a PCI address that was named to
  /// start_eal(). device_args.hpp lists the defaults that are filled in.
  std::string device;
  /// Packet buffers of this port, about 5 KB each, used as touched.
  std::uint32_t buffers = 4096;
  /// Bytes of an IP packet the link carries; 0: ask the interface or device.
  std::uint32_t mtu = 0;
};

/// Opens and starts the device. REQUIRES: start_eal() succeeded.
/// The port must be used by one thread at a time; the first call of receive() makes its thread
/// known to DPDK. link_up() and counters() may cost a system call: for control, not each step.
/// Errors name the device and, as far as DPDK tells, why it does not start.
Expected<std::unique_ptr<Port>> open_dpdk_port(const DpdkPortOptions& options);

}  // namespace softhca::port
