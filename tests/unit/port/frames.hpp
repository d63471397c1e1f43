// SPDX-License-Identifier: Apache-2.0

// Frames for the tests of ports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "daemon/base/endian.hpp"
#include "daemon/port/port.hpp"

namespace softhca::port {

inline constexpr std::size_t kTestRoceOffset = 14 + 20 + 8;

/// An Ethernet, IPv4, UDP frame to `udp_port` with a 4-byte number first in its payload.
inline std::vector<std::byte> udp_frame(std::uint32_t number, std::size_t payload = 64,
                                        std::uint16_t udp_port = 4791) {
  std::vector<std::byte> f(kTestRoceOffset);
  f.resize(kTestRoceOffset + payload, std::byte{0x5a});
  f[0] = f[6] = std::byte{2};
  f[5] = std::byte{2};
  f[11] = std::byte{1};
  store_be<std::uint16_t>(&f[12], 0x0800);
  f[14] = std::byte{0x45};
  store_be(&f[16], static_cast<std::uint16_t>(28 + payload));
  f[22] = std::byte{64};
  f[23] = std::byte{17};
  store_be<std::uint32_t>(&f[26], 0x0a000001);
  store_be<std::uint32_t>(&f[30], 0x0a000002);
  store_be<std::uint16_t>(&f[34], 0xc000);
  store_be(&f[36], udp_port);
  store_be(&f[38], static_cast<std::uint16_t>(8 + payload));
  store_be(&f[kTestRoceOffset], number);
  return f;
}

inline std::uint32_t number_of(const Frame& frame) {
  return load_be<std::uint32_t>(frame.data + kTestRoceOffset);
}

/// Copies `bytes` into a frame of the port and transmits it; false when the port has none left.
inline bool send_bytes(Port& port, const std::vector<std::byte>& bytes) {
  Frame frame = port.allocate();
  if (!frame || frame.capacity < bytes.size()) return false;
  std::memcpy(frame.data, bytes.data(), bytes.size());
  frame.length = static_cast<std::uint32_t>(bytes.size());
  port.transmit(frame);
  return true;
}

/// Receives and releases everything that is there now, in one call.
inline std::vector<std::vector<std::byte>> receive_all(Port& port, std::size_t most = 64) {
  std::vector<Frame> frames(most);
  const std::size_t n = port.receive(frames);
  std::vector<std::vector<std::byte>> all;
  for (std::size_t i = 0; i < n; ++i)
    all.emplace_back(frames[i].data, frames[i].data + frames[i].length);
  port.release({frames.data(), n});
  return all;
}

}  // namespace softhca::port
