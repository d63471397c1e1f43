// SPDX-License-Identifier: Apache-2.0

// Descriptors, of which the kernel gives a limited number.
#pragma once

#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control_thread/blocking_calls.hpp"

namespace softhca::control {

/// Raises the limit of descriptors to the hard limit. The soft limit is often 1024, for programs
/// that use select(). Call it at start-up. Errors: those of setrlimit.
Outcome raise_descriptor_limit();

/// A descriptor held in reserve for when descriptors run out. Without it, a connection that cannot
/// be accepted stays in the queue of its listener, and the listener stays ready.
class SpareDescriptor {
 public:
  SpareDescriptor() { take(); }

  /// Takes a connection from the queue and has it closed, so that its process is notified. `owner`:
  /// as BlockingCalls::close(). Returns false if even that is not possible now.
  bool refuse_one(int listener, BlockingCalls& calls, const std::string& owner);

 private:
  void take();

  UniqueFd spare_;
};

}  // namespace softhca::control
