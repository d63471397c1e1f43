// SPDX-License-Identifier: Apache-2.0

// Wakes a sleeping engine when a RoCE, ARP or ICMPv6 frame arrives on a kernel interface. The
// packet ring of net_af_packet has no descriptor to wait on, so a second packet socket listens
// beside it.
#pragma once

#include "daemon/base/expected.hpp"

namespace softhca::port {

/// A packet socket that takes one byte of each RoCE (UDP port 4791), ARP and ICMPv6 frame, and an
/// event descriptor, joined in one descriptor to wait on. While the engine is awake and reads no
/// frames, the small buffer is full and the kernel drops frames at once. Also makes the interface
/// receive all multicast frames: neighbour solicitations for addresses that the kernel does not own
/// arrive by multicast.
class WakeSocket {
 public:
  /// Opens the socket. Error: no such interface, or no CAP_NET_RAW.
  static Expected<WakeSocket> open(int interface_index);
  WakeSocket(WakeSocket&& other) noexcept;
  WakeSocket& operator=(WakeSocket&& other) noexcept;
  ~WakeSocket();

  int fd() const { return wait_; }
  /// Forgets all earlier wake-ups.
  void drain();
  /// Makes fd() readable until the next drain().
  void poke();

 private:
  WakeSocket() = default;

  int packets_ = -1;
  int event_ = -1;
  int wait_ = -1;  ///< epoll descriptor over the two
};

}  // namespace softhca::port
