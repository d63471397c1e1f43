// SPDX-License-Identifier: Apache-2.0

// System calls that a tenant can delay, on a thread of each tenant. Such calls close a socket with
// descriptors in its queue that a process has passed, seal memory that a process is busy with, or
// unmap much memory. Neither the control thread nor another tenant waits for them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

/// The control thread uses it; its threads only make these calls. An owner has a thread as long as
/// it has calls, and a second longer.
class BlockingCalls {
 public:
  using Call = std::function<void()>;
  using Step = std::function<bool()>;

  BlockingCalls();
  /// Does not wait for a call that does not return.
  ~BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;

  /// Another thread makes `call`, after the earlier calls of the same owner. `owner`: name of the
  /// tenant that may delay it; empty: the operator. finish() calls `then` when `call` has returned.
  /// The other thread also destroys what `call` holds.
  void make(const std::string& owner, Call call, Call then = {});
  /// Does the same for long work: calls `step` until it returns false, with other calls of the
  /// owner in between.
  void make_steps(const std::string& owner, Step step, Call then = {});
  /// Closes a socket to which a process of the owner may have sent something. REQUIRES: no loop
  /// watches it.
  void close(UniqueFd socket, const std::string& owner);

  /// Returns a descriptor that is readable when finish() has something to do. Negative: the kernel
  /// gave no descriptor.
  int fd() const;
  /// Calls `then` of the calls that have returned.
  void finish();

  /// Drops `then` of all calls of an owner that goes, also of those being made or over. The calls
  /// are still made.
  void forget(const std::string& owner);

  /// True if a call for the owner has taken a second and has not returned, or if 4096 of its
  /// descriptors wait to be closed. The owner must get no more until this changes.
  bool stuck(const std::string& owner) const;
  std::size_t waiting() const;  ///< calls that have not returned

  /// Starts the threads that the kernel refused before. Call it about once a second.
  void tick();

 private:
  struct Work;
  std::shared_ptr<Work> work_;  ///< a thread that never returns holds it, too
};

}  // namespace softhca::control
