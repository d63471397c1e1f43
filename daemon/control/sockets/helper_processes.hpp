// Processes of the daemon that do what tenants' processes can keep waiting for as long as they
// like, in a wait that no signal ends: a thread of the daemon in such a wait would keep the daemon
// from ending, and its sockets and ports from going to another one.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

class HelperProcesses {
 public:
  /// Starts a process that makes the others, and ends with this one. REQUIRES: the process has one
  /// thread, and nothing open that others may want. Errors: what socketpair and fork say.
  static Expected<std::shared_ptr<const HelperProcesses>> start();
  HelperProcesses(const HelperProcesses&) = delete;
  HelperProcesses& operator=(const HelperProcesses&) = delete;

  /// Memory that tenants' processes share, as SealedMemory::seal_holes(), by a process that does
  /// nothing else meanwhile, and seals for others afterwards. A signal that ends it ends the wait.
  /// Any thread.
  Outcome seal(int fd) const;
  /// A process that serves the other end of `socket` (engine::serve_memory_proxy()), until that is
  /// closed. Where it cannot be made, the process's end of `socket` is closed. Any thread.
  Outcome start_memory_proxy(int area, int socket) const;

 private:
  explicit HelperProcesses(UniqueFd socket) : socket_(std::move(socket)) {}
  Outcome ask(char what, int first, int second) const;
  UniqueFd take_sealer() const;
  Expected<UniqueFd> start_sealer(int fd) const;

  UniqueFd socket_;
  mutable std::mutex mutex_;
  mutable std::vector<UniqueFd> idle_sealers_;  ///< their sockets
};

/// Null: this thread seals it itself, as a test may.
Outcome seal(const std::shared_ptr<const HelperProcesses>& helpers, int fd);

}  // namespace softhca::control
