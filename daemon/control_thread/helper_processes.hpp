// SPDX-License-Identifier: Apache-2.0

// Processes of the daemon for work that tenants' processes can delay for any time, in a wait that
// no signal ends. A thread of the daemon in such a wait would keep the daemon from ending. Its
// sockets and ports could then not go to another daemon.
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
  /// Starts a process that makes the others, and ends with this one. REQUIRES: this process has one
  /// thread, and no open descriptor that others may need. Errors: those of socketpair and fork.
  static Expected<std::shared_ptr<const HelperProcesses>> start();
  HelperProcesses(const HelperProcesses&) = delete;
  HelperProcesses& operator=(const HelperProcesses&) = delete;

  /// Seals memory that tenants' processes share, as SealedMemory::seal_holes(). A process does only
  /// this meanwhile, and seals other memory afterwards. A signal that ends that process ends the
  /// wait. Call it on any thread.
  Outcome seal(int fd) const;
  /// Starts a process that serves the other end of `socket` (memory::serve_memory_proxy()), until
  /// that is closed. If it cannot be made, the process's end of `socket` is closed. Call it on any
  /// thread.
  Outcome start_memory_proxy(int area, int socket) const;

 private:
  explicit HelperProcesses(UniqueFd socket) : socket_(std::move(socket)) {}
  Outcome ask(char what, int first, int second) const;
  UniqueFd take_sealer() const;
  Expected<UniqueFd> start_sealer(int fd) const;

  UniqueFd socket_;
  mutable std::mutex mutex_;
  mutable std::vector<UniqueFd> idle_sealers_;  ///< sockets of the idle sealers
};

/// Seals memory. `helpers` null: this thread seals it itself, as a test may.
Outcome seal(const std::shared_ptr<const HelperProcesses>& helpers, int fd);

}  // namespace softhca::control
