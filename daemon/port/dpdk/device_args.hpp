// SPDX-License-Identifier: Apache-2.0

// The device string of a port, as the operator writes it, completed with the settings that RoCE
// frames need. This code does not use DPDK.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"

namespace softhca::port {

/// Room for the largest RoCE frame (path MTU 4096 and all headers, 4210 bytes). Eight of them fill
/// a block of the kernel's packet ring.
inline constexpr std::uint32_t kDefaultFrameRoom = 4608;

/// A parsed "NAME,key=value,...". NAME is a DPDK virtual device or a PCI address.
struct DeviceArgs {
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;

  bool is(std::string_view driver) const { return name.starts_with(driver); }
  bool is_pci() const;
  std::optional<std::string> option(std::string_view key) const;
  void set_default(std::string_view key, std::string_view value);
  /// Returns the string for DPDK.
  std::string text() const;
  /// Returns the bytes that a frame may have in this device's buffers (framesz of af_packet, bsize
  /// of memif, else the default).
  std::uint32_t frame_room() const;
};

/// Parses a device string and adds defaults:
/// - "iface=NAME[,...]" is net_af_packet on that interface;
/// - net_af_packet: framesz=4608, blocksz=36864, framecnt=1024, qpairs=1;
/// - net_memif: bsize=4608, rsize=10 (2^10 descriptors), socket-abstract=no, so that file
///   permissions decide which processes may connect.
/// Error: malformed text, no interface, a buffer too small for a frame.
Expected<DeviceArgs> parse_device(std::string_view text);

}  // namespace softhca::port
