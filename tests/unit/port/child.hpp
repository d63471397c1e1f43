// SPDX-License-Identifier: Apache-2.0

// Runs part of a test in a process of its own: DPDK starts once per process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace softhca::port {

/// A forked process. Its body returns an empty string, or what went wrong.
class Child {
 public:
  explicit Child(const std::function<std::string()>& body);
  Child(const Child&) = delete;
  ~Child();

  /// Waits for the end. What went wrong, also a signal; empty when all is well.
  std::string result();
  /// Still there? Reaps it if not.
  bool is_running();
  /// Ends it the hard way.
  void kill();

 private:
  pid_t pid_ = -1;
  int report_ = -1;
};

inline std::string run_in_child(const std::function<std::string()>& body) {
  return Child(body).result();
}

}  // namespace softhca::port
