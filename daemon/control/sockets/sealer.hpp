// Seals memory that tenants' processes share, in processes of its own. A process that keeps its
// memory busy keeps who seals it in a wait that no signal ends; a thread of the daemon in such a
// wait would keep the daemon from ending, and its sockets and ports from going to another one.
#pragma once

#include <memory>
#include <utility>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

class Sealer {
 public:
  /// Starts a process that makes another one for each seal, and ends with this one. REQUIRES: the
  /// process has one thread, and nothing open that others may want. Errors: what socketpair and
  /// fork say.
  static Expected<std::shared_ptr<const Sealer>> start();
  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;

  /// As SealedMemory::seal_holes(). A signal that ends the process ends the wait. Any thread.
  Outcome seal(int fd) const;

 private:
  explicit Sealer(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

/// Null: this thread seals it itself, as a test may.
Outcome seal(const std::shared_ptr<const Sealer>& sealer, int fd);

}  // namespace softhca::control
