// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/guid.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace softhca::control {
namespace {

/// FNV-1a.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      value_ = (value_ ^ std::to_integer<std::uint8_t>(byte)) * 0x100000001b3;
  }
  template <class T>
  void add_value(const T& value) {
    add(std::as_bytes(std::span(&value, 1)));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

std::uint64_t daemon_identity(std::string_view runtime_dir, std::span<const PortIdentity> ports) {
  Hash hash;
  hash.add(std::as_bytes(std::span(runtime_dir)));
  for (const PortIdentity& port : ports) {
    hash.add_value(port.mac.bytes);
    hash.add_value(port.address.bytes);
  }
  return hash.value();
}

MacAddress link_address(std::string_view device, const Gid& first_address) {
  Hash hash;
  hash.add(std::as_bytes(std::span(device)));
  hash.add_value(first_address.bytes);
  MacAddress mac;
  for (std::size_t i = 0; i < mac.bytes.size(); ++i)
    mac.bytes[i] = static_cast<std::uint8_t>(hash.value() >> (8 * i));
  mac.bytes[0] = static_cast<std::uint8_t>((mac.bytes[0] & ~0x01) | 0x02);  // unicast, local
  return mac;
}

std::uint64_t node_guid(std::uint64_t daemon, std::string_view device) {
  Hash hash;
  hash.add_value(daemon);
  hash.add(std::as_bytes(std::span(device)));
  constexpr std::uint64_t kLocal = std::uint64_t{0x02} << 56;
  constexpr std::uint64_t kGroup = std::uint64_t{0x01} << 56;
  return (hash.value() | kLocal) & ~kGroup;
}

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

}  // namespace softhca::control
