// What to do about descriptors, of which there are only so many.
#pragma once

#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control/sockets/blocking_calls.hpp"

namespace softhca::control {

/// Lets the process have as many as its hard limit allows; the soft one is often 1024, for
/// programs that use select(). Start-up. Errors: what setrlimit says.
Outcome raise_descriptor_limit();

/// One descriptor held back for the moment when there are no others: without it a connection that
/// cannot be accepted stays in the queue of its listener, which therefore stays ready.
class SpareDescriptor {
 public:
  SpareDescriptor() { take(); }

  /// Takes a connection from the queue and has it closed, so that its process learns of it.
  /// `owner`: as BlockingCalls::close(). False: even that is not possible now.
  bool refuse_one(int listener, BlockingCalls& calls, const std::string& owner);

 private:
  void take();

  UniqueFd spare_;
};

}  // namespace softhca::control
