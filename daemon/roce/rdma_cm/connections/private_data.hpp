// SPDX-License-Identifier: Apache-2.0

// Private data as programs see it, and of requests on the wire, where 36 bytes with the IP
// addresses precede the program's data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "daemon/roce/rdma_cm/identifier.hpp"
#include "daemon/roce/rdma_cm/layouts.hpp"
#include "daemon/roce/wire/cm_messages.hpp"

namespace softhca::management::rdma_cm {

/// Largest value of a 3-bit retry count.
inline constexpr std::uint8_t kMostRetries = 7;

/// Returns the program's part: at most 255 of the 256 bytes of a command.
inline std::span<const std::byte> private_data_of(const rdma_ucm_conn_param& parameters) {
  return std::as_bytes(std::span(parameters.private_data)).first(parameters.private_data_len);
}

/// Copies private data into the parameters of an event, with the full length of the field.
template <class Parameters>
void copy_private_data(std::span<const std::byte> from, Parameters& to) {
  static_assert(sizeof to.private_data == RDMA_MAX_PRIVATE_DATA);
  std::memcpy(to.private_data, from.data(), from.size());
  to.private_data_len = static_cast<std::uint8_t>(from.size());
}

/// Returns the bytes of an IP address in the format of the header.
inline std::array<std::uint8_t, 16> to_header(const Gid& address) {
  std::array<std::uint8_t, 16> bytes = address.bytes;
  if (address.is_ipv4()) std::fill_n(bytes.begin(), 12, std::uint8_t{0});
  return bytes;
}

/// REQUIRES: `ip_version` is 4 or 6.
inline Gid from_header(const std::array<std::uint8_t, 16>& bytes, std::uint8_t ip_version) {
  Gid address{.bytes = bytes};
  if (ip_version == 4) {
    std::fill_n(address.bytes.begin(), 10, std::uint8_t{0});
    address.bytes[10] = address.bytes[11] = 0xff;
  }
  return address;
}

/// Private data of a REQ (92 bytes) or SIDR_REQ (216).
template <std::size_t kBytes>
class RequestData {
 public:
  static constexpr std::size_t kMostOfProgram = kBytes - wire::CmIpHeader::kBytes;

  /// Returns false if the program's part is too long.
  bool fill(const Identifier& id, std::span<const std::byte> program) {
    constexpr std::size_t kHeader = wire::CmIpHeader::kBytes;
    if (program.size() > kMostOfProgram) return false;
    wire::encode(wire::CmIpHeader{.ip_version = id.remote.address.is_ipv4() ? std::uint8_t{4}
                                                                            : std::uint8_t{6},
                                  .source_port = id.local.port,
                                  .source = to_header(*id.source),
                                  .destination = to_header(id.remote.address)},
                 std::span(bytes_).template first<kHeader>());
    std::ranges::copy(program, bytes_.begin() + kHeader);
    return true;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

}  // namespace softhca::management::rdma_cm
