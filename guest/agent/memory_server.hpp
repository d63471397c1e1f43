// SPDX-License-Identifier: Apache-2.0

// Accesses to memory of programs that is not in the region. The daemon asks for them in an area of
// the region, and a process of the agent makes them (daemon/tenant_memory/proxy_area.hpp).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/tenant_memory/proxy_area.hpp"
#include "guest/agent/region.hpp"
#include "guest/channel/event_loop.hpp"

namespace softhca::guest {

class MemoryServer {
 public:
  MemoryServer(EventLoop& loop, const Region& region) : loop_(loop), region_(region) {}
  ~MemoryServer() { stop(); }
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;

  /// Starts the process. Returns the end of a socket at which the records of the daemon's bell
  /// arrive (abi::MachineBell). Errors: those of the system; EPROTO, the area is not in the region.
  Expected<UniqueFd> start(const abi::MemoryPlace& area);
  /// Ends the process.
  void stop();

  /// Gives the process the socket by which a program offers its memory. Returns false if the
  /// process does not take it.
  bool add(std::uint32_t memory, const UniqueFd& offered);

 private:
  bool tell(const memory::ProxyMessage& message, std::span<const int> fds);
  void wake();
  void rung();

  EventLoop& loop_;
  const Region& region_;
  memory::ProxyArea* area_ = nullptr;
  UniqueFd socket_;  ///< to the process
  UniqueFd bell_;
  Watch watch_;  ///< of the bell
  pid_t process_ = -1;
};

}  // namespace softhca::guest
