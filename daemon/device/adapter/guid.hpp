// SPDX-License-Identifier: Apache-2.0

// GUIDs of the tenants' devices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/base/net.hpp"

namespace softhca::control {

struct PortIdentity {
  MacAddress mac;
  Gid address;  ///< its first address
};

/// Returns a number that distinguishes this daemon from all others that its tenants can reach.
/// Other daemons of this machine have other runtime directories, those of other machines other
/// ports. A restart with the same directory and ports returns the same number.
std::uint64_t daemon_identity(std::string_view runtime_dir, std::span<const PortIdentity> ports);

/// Returns a link address for a DPDK device without one of its own. It differs from those of other
/// hosts, as the port's first address does, and a restart returns the same.
MacAddress link_address(std::string_view device, const Gid& first_address);

/// Returns an EUI-64 with the "locally administered" bit set. Host byte order, never 0. `device`:
/// the tenant, or "TENANT/DEVICE" for a further device.
std::uint64_t node_guid(std::uint64_t daemon, std::string_view device);

/// Returns a GUID as the kernel writes it, "0200:5eff:fe10:0001" (configuration::parse_guid()).
std::string guid_text(std::uint64_t guid);

}  // namespace softhca::control
