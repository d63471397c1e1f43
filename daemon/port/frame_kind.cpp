#include "daemon/port/frame_kind.hpp"

#include <cstdint>

#include "daemon/base/endian.hpp"

namespace softhca::port {
namespace {

constexpr std::uint16_t kEtherTypeVlan = 0x8100;
constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr std::byte kProtocolUdp{17};
constexpr std::uint16_t kRocePort = 4791;
constexpr std::size_t kUdpHeader = 8;

/// Offset of the UDP header, 0 if none can be there.
std::size_t udp_offset(std::span<const std::byte> frame) {
  std::size_t at = 12;
  if (frame.size() < at + 2) return 0;
  auto type = load_be<std::uint16_t>(&frame[at]);
  if (type == kEtherTypeVlan) {
    at += 4;
    if (frame.size() < at + 2) return 0;
    type = load_be<std::uint16_t>(&frame[at]);
  }
  at += 2;
  if (type == kEtherTypeIpv4 && frame.size() >= at + 20 && frame[at + 9] == kProtocolUdp)
    return at + std::to_integer<std::size_t>(frame[at] & std::byte{15}) * 4;
  if (type == kEtherTypeIpv6 && frame.size() >= at + 40 && frame[at + 6] == kProtocolUdp)
    return at + 40;
  return 0;
}

}  // namespace

std::size_t roce_offset(std::span<const std::byte> frame) {
  const std::size_t udp = udp_offset(frame);
  if (udp == 0 || frame.size() < udp + kUdpHeader) return 0;
  return load_be<std::uint16_t>(&frame[udp + 2]) == kRocePort ? udp + kUdpHeader : 0;
}

}  // namespace softhca::port
