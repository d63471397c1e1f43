// What RoCEv2 is carried by. (wire says so too; a port does without it.)
#pragma once

#include <cstdint>

namespace softhca::port {

inline constexpr std::uint16_t kRocePort = 4791;
inline constexpr std::uint8_t kProtocolUdp = 17;

}  // namespace softhca::port
