// SPDX-License-Identifier: Apache-2.0

// Management datagrams (InfiniBand specification, volume 1, 13.4): 256 bytes that begin with a
// common header of 24 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace softhca::wire {

inline constexpr std::size_t kMadBytes = 256;
inline constexpr std::size_t kMadHeaderBytes = 24;
inline constexpr std::uint8_t kMadBaseVersion = 1;
/// Q_Key of the general services agents (queue pair 1).
inline constexpr std::uint32_t kGeneralServicesQkey = 0x80010000;
inline constexpr std::uint32_t kGeneralServicesQpn = 1;

/// True if the Q_Key is for privileged users alone (IBA 10.2.5). In a work request, such a key
/// stands for the Q_Key of the queue pair.
constexpr bool is_controlled_qkey(std::uint32_t qkey) { return (qkey & 0x80000000) != 0; }

using Mad = std::array<std::byte, kMadBytes>;

/// The management class of a MAD. A peer may send any other value.
enum class ManagementClass : std::uint8_t {
  kSubnetLid = 0x01,
  kSubnetAdministration = 0x03,
  kPerformance = 0x04,
  kBaseboard = 0x05,
  kDeviceManagement = 0x06,
  kCommunication = 0x07,
  kSnmpTunnelling = 0x08,
  kSubnetDirected = 0x81,
};

/// The operation on the attribute. Bit 0x80 marks a response.
enum class MadMethod : std::uint8_t {
  kGet = 0x01,
  kSet = 0x02,
  kSendMessage = 0x03,
  kTrap = 0x05,
  kReport = 0x06,
  kTrapRepress = 0x07,
  kGetResponse = 0x81,
  kReportResponse = 0x86,
};

constexpr bool is_response(MadMethod method) {
  return (static_cast<std::uint8_t>(method) & 0x80) != 0;
}

/// Bits of the status field that all classes share (13.4.7).
struct MadStatus {
  static constexpr std::uint16_t kOk = 0x0000;
  static constexpr std::uint16_t kBusy = 0x0001;
  static constexpr std::uint16_t kBadVersion = 0x0004;
  static constexpr std::uint16_t kMethodNotSupported = 0x0008;
  static constexpr std::uint16_t kAttributeNotSupported = 0x000c;
  static constexpr std::uint16_t kInvalidField = 0x001c;
};

/// The common header, in host byte order.
struct MadHeader {
  std::uint8_t base_version = kMadBaseVersion;
  ManagementClass management_class{};
  std::uint8_t class_version = 1;
  MadMethod method{};
  std::uint16_t status = MadStatus::kOk;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction_id = 0;
  std::uint16_t attribute_id = 0;
  std::uint32_t attribute_modifier = 0;

  bool operator==(const MadHeader&) const = default;
};

/// Parses the common header. None: not 256 bytes, or another base version.
[[nodiscard]] std::optional<MadHeader> decode_mad_header(std::span<const std::byte> mad);

void encode(const MadHeader& header, std::span<std::byte, kMadBytes> mad);

}  // namespace softhca::wire
