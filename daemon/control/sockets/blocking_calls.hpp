// System calls that a tenant can keep waiting, on a thread of each tenant: closing a socket in
// which descriptors wait that a process has passed, sealing memory that it is busy with, unmapping
// much of it. Neither the control thread nor another tenant waits for them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/unique_fd.hpp"

namespace softhca::control {

/// Used by the control thread; its threads do nothing but these calls. An owner has a thread as
/// long as it has calls, and a second longer.
class BlockingCalls {
 public:
  using Call = std::function<void()>;
  using Step = std::function<bool()>;

  BlockingCalls();
  /// Waits for no call that does not come back.
  ~BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;

  /// `call` is made by another thread, after those of the same owner. `owner`: name of the tenant
  /// that may keep it waiting; empty: the operator. finish() calls `then` when it has come back.
  /// The other thread also ends what `call` holds.
  void make(const std::string& owner, Call call, Call then = {});
  /// Likewise, for what takes long in all: calls `step` until it returns false, and others of the
  /// owner's in between.
  void make_steps(const std::string& owner, Step step, Call then = {});
  /// Closes what a process of the owner may have sent something to. REQUIRES: no loop watches it.
  void close(UniqueFd socket, const std::string& owner);

  /// Readable when finish() has something to do. Negative: the system gave no descriptor.
  int fd() const;
  /// What is to follow the calls that have come back.
  void finish();

  /// The owner goes: what is to follow its calls is forgotten, that of calls being made or over
  /// among it. The calls are made all the same.
  void forget(const std::string& owner);

  /// True: a call for the owner has taken a second and has not come back, or 4096 of its
  /// descriptors wait to be closed.
  /// It is to have no more until this changes.
  bool stuck(const std::string& owner) const;
  std::size_t waiting() const;  ///< calls that have not come back

  /// About once a second: starts the threads that the system did not give before.
  void tick();

 private:
  struct Work;
  std::shared_ptr<Work> work_;  ///< a thread that never comes back holds it, too
};

}  // namespace softhca::control
