// The protocol numbers by which RoCEv2 is recognized. (wire has them, too; a port does without it.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::port {

inline constexpr std::uint16_t kRocePort = 4791;
inline constexpr std::uint8_t kProtocolUdp = 17;
inline constexpr std::size_t kUdpHeader = 8;

}  // namespace softhca::port
