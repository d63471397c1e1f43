// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/train.hpp"

#include <cstring>

#include "daemon/base/endian.hpp"
#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

/// Returns the sum of 16-bit words in network order (RFC 1071).
std::uint32_t sum_of(std::span<const std::byte> bytes, std::uint32_t sum) {
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += load_be<std::uint16_t>(&bytes[i]);
  return sum;
}

std::uint16_t folded(std::uint32_t sum) {
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}

}  // namespace

void make_packet_head(std::span<std::byte> head, std::size_t network, std::size_t index,
                      std::size_t bytes) {
  std::byte* ip = head.data() + network;
  std::byte* udp = head.data() + head.size() - kUdpHeader;
  const auto udp_length = static_cast<std::uint16_t>(kUdpHeader + bytes);
  store_be(udp + 4, udp_length);
  store_be(udp + 6, std::uint16_t{0});  // none: the ICRC covers the packet
  const std::size_t ip_length = static_cast<std::size_t>(udp - ip);
  if (ip_length != kIpv4Header) return store_be(ip + 4, udp_length);
  store_be(ip + 2, static_cast<std::uint16_t>(ip_length + udp_length));
  const auto first = load_be<std::uint16_t>(ip + 4);
  store_be(ip + 4, static_cast<std::uint16_t>(first + index));
  store_be(ip + 10, std::uint16_t{0});
  store_be(ip + 10, static_cast<std::uint16_t>(~folded(sum_of({ip, ip_length}, 0))));
}

std::uint16_t pseudo_header_sum(std::span<const std::byte> head, std::size_t network) {
  const std::byte* udp = head.data() + head.size() - kUdpHeader;
  const std::size_t ip_length = head.size() - kUdpHeader - network;
  // Both addresses are at the end of the IP header.
  const std::size_t addresses = ip_length == kIpv4Header ? 8 : 32;
  const std::uint32_t sum = std::uint32_t{kProtocolUdp} + load_be<std::uint16_t>(udp + 4);
  return folded(sum_of({udp - addresses, addresses}, sum));
}

}  // namespace softhca::port
