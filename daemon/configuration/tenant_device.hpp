// SPDX-License-Identifier: Apache-2.0

// A device of a tenant as its programs see it: [[tenant.device]].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/net.hpp"

namespace softhca::configuration {

/// The rate that a port reports: an index into kPortRates.
enum class PortRate : std::uint8_t { k10, k25, k40, k50, k56, k100, k200, k400, k800, kCount };

/// A rate as programs read it. The codes are those of adapters with an Ethernet link of the rate.
struct PortRateCodes {
  std::string_view word;   ///< in the configuration
  const char* text;        ///< as the kernel's file `rate` has it
  std::uint8_t width;      ///< ibv_port_attr::active_width
  std::uint8_t speed;      ///< ibv_port_attr::active_speed
  std::uint8_t path_rate;  ///< enum ibv_rate
};
inline constexpr PortRateCodes kPortRates[] = {
    {"10Gbit", "10 Gb/sec (1X QDR)", 1, 4, 3},      {"25Gbit", "25 Gb/sec (1X EDR)", 1, 32, 15},
    {"40Gbit", "40 Gb/sec (4X QDR)", 2, 4, 7},      {"50Gbit", "50 Gb/sec (1X HDR)", 1, 64, 20},
    {"56Gbit", "56 Gb/sec (4X FDR)", 2, 16, 12},    {"100Gbit", "100 Gb/sec (4X EDR)", 2, 32, 16},
    {"200Gbit", "200 Gb/sec (4X HDR)", 2, 64, 17},  {"400Gbit", "400 Gb/sec (4X NDR)", 2, 128, 21},
    {"800Gbit", "800 Gb/sec (8X NDR)", 4, 128, 23},
};
static_assert(std::size(kPortRates) == static_cast<std::size_t>(PortRate::kCount));

inline const PortRateCodes& codes_of(PortRate rate) {
  return kPortRates[static_cast<std::size_t>(rate)];
}

struct TenantDevice {
  std::string name;                   ///< never empty in a configuration that was read
  std::string guid;                   ///< "0200:5eff:fe10:0001"; empty: derived
  PortRate rate = PortRate::k100;     ///< reported; it limits nothing
  std::string pci;                    ///< "0000:3b:00.0"; empty: the device is not on a PCI bus
  std::optional<std::uint32_t> numa;  ///< reported NUMA node
  std::vector<Gid> addresses;         ///< its GID table, in this order

  bool operator==(const TenantDevice&) const = default;
};

inline constexpr std::size_t kMostDevices = 16;  ///< of a tenant

/// Parses a GUID as the kernel writes it, "0200:5eff:fe10:0001". Empty: it is none, or 0.
std::optional<std::uint64_t> parse_guid(std::string_view text);
/// True if the text is a PCI address as the kernel writes it, "0000:3b:00.0".
bool is_pci_address(std::string_view text);
/// Returns the name of device `index` if it has none: that of [device], "softhca0", with the number
/// at its end raised by `index`.
std::string default_device_name(std::string_view first, std::size_t index);

}  // namespace softhca::configuration
