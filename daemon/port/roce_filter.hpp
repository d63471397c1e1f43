// SPDX-License-Identifier: Apache-2.0

// A filter for the frames of a kernel interface that a RoCE port needs.
#pragma once

#include <linux/filter.h>

#include <array>
#include <cstdint>

namespace softhca::port {

using RoceFilter = std::array<sock_filter, 17>;

/// Returns a classic BPF program that takes `bytes` of each RoCE (UDP port 4791), ARP and ICMPv6
/// frame and drops all others. It runs after the kernel has removed VLAN tags.
RoceFilter roce_filter(std::uint32_t bytes);

/// Attaches the filter to a socket. True: `fd` receives no other frames from now on.
bool attach(int fd, const RoceFilter& filter);

}  // namespace softhca::port
