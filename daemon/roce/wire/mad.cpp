// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/wire/mad.hpp"

#include "daemon/base/endian.hpp"

namespace softhca::wire {

std::optional<MadHeader> decode_mad_header(std::span<const std::byte> mad) {
  if (mad.size() != kMadBytes) return std::nullopt;
  MadHeader h;
  h.base_version = std::to_integer<std::uint8_t>(mad[0]);
  if (h.base_version != kMadBaseVersion) return std::nullopt;
  h.management_class = ManagementClass{std::to_integer<std::uint8_t>(mad[1])};
  h.class_version = std::to_integer<std::uint8_t>(mad[2]);
  h.method = MadMethod{std::to_integer<std::uint8_t>(mad[3])};
  h.status = load_be<std::uint16_t>(&mad[4]);
  h.class_specific = load_be<std::uint16_t>(&mad[6]);
  h.transaction_id = load_be<std::uint64_t>(&mad[8]);
  h.attribute_id = load_be<std::uint16_t>(&mad[16]);
  h.attribute_modifier = load_be<std::uint32_t>(&mad[20]);
  return h;
}

void encode(const MadHeader& header, std::span<std::byte, kMadBytes> mad) {
  mad[0] = std::byte{header.base_version};
  mad[1] = static_cast<std::byte>(header.management_class);
  mad[2] = std::byte{header.class_version};
  mad[3] = static_cast<std::byte>(header.method);
  store_be(&mad[4], header.status);
  store_be(&mad[6], header.class_specific);
  store_be(&mad[8], header.transaction_id);
  store_be(&mad[16], header.attribute_id);
  store_be(&mad[18], std::uint16_t{0});
  store_be(&mad[20], header.attribute_modifier);
}

}  // namespace softhca::wire
