// The protocol numbers by which RoCEv2 is recognized. (wire has them, too; a port does without it.)
#pragma once

#include <cstdint>

namespace softhca::port {

inline constexpr std::uint16_t kRocePort = 4791;
inline constexpr std::uint8_t kProtocolUdp = 17;

}  // namespace softhca::port
