// Wakes a sleeping engine when a frame it cares for arrives on a kernel interface. The packet ring
// of net_af_packet has no descriptor we could wait on, so a second packet socket listens beside it.
#pragma once

#include "daemon/base/expected.hpp"

namespace softhca::port {

/// A packet socket that takes one byte of each RoCE (UDP port 4791), ARP and ICMPv6 frame, and an
/// event descriptor, behind one descriptor to wait on. While frames are not read (the engine is
/// awake) its small buffer is full and the kernel drops at once.
/// Also asks the interface for all multicast frames: neighbour solicitations for addresses the
/// kernel does not own come that way.
class WakeSocket {
 public:
  /// Error: no such interface, or no CAP_NET_RAW.
  static Expected<WakeSocket> open(int interface_index);
  WakeSocket(WakeSocket&& other) noexcept;
  WakeSocket& operator=(WakeSocket&& other) noexcept;
  ~WakeSocket();

  int fd() const { return wait_; }
  /// Forgets what arrived so far.
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
