// SPDX-License-Identifier: Apache-2.0

// A place where the monitor of a machine, or its guest, connects to the relay.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "guest/channel/event_loop.hpp"

namespace softhca::guest {

class Listener {
 public:
  using Accept = std::function<void(UniqueFd)>;

  explicit Listener(EventLoop& loop) : loop_(loop) {}
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Listens on a Unix socket at the path `place`, or, for "vsock" or "vsock:CID", on kVsockPort of
  /// AF_VSOCK. With a CID only that machine may connect.
  Outcome open(const std::string& place, Accept accept);

 private:
  Outcome open_vsock(const std::string& cid);
  void ready();

  EventLoop& loop_;
  UniqueFd fd_;
  Watch watch_;
  Accept accept_;
  std::string path_;                  ///< of the Unix socket
  std::optional<std::uint32_t> cid_;  ///< of the only machine that may connect
};

}  // namespace softhca::guest
