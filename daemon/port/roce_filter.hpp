// Which frames of a kernel interface a RoCE port cares for.
#pragma once

#include <linux/filter.h>

#include <array>
#include <cstdint>

namespace softhca::port {

using RoceFilter = std::array<sock_filter, 17>;

/// Classic BPF that takes `bytes` of each RoCE (UDP port 4791), ARP and ICMPv6 frame and nothing of
/// any other. The kernel has taken VLAN tags off the frames by then.
RoceFilter roce_filter(std::uint32_t bytes);

/// True: `fd` gets no other frames from now on.
bool attach(int fd, const RoceFilter& filter);

}  // namespace softhca::port
