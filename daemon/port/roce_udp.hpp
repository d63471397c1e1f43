// SPDX-License-Identifier: Apache-2.0

// The protocol numbers that identify RoCEv2. (roce/wire has them, too, but a port does not depend
// on it.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::port {

inline constexpr std::uint16_t kRocePort = 4791;
inline constexpr std::uint8_t kProtocolUdp = 17;
inline constexpr std::size_t kUdpHeader = 8;

}  // namespace softhca::port
