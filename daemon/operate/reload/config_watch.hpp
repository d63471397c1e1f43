// SPDX-License-Identifier: Apache-2.0

// Notices changes of the files of a configuration, also behind symbolic links that are replaced, as
// in a ConfigMap of Kubernetes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace softhca::control {

class ConfigWatch {
 public:
  /// Records the state of the files. Call it before they are read.
  explicit ConfigWatch(const std::vector<std::string>& files);

  /// True if a file has changed, and all are as in the call before: a program may be writing them.
  /// Each change is reported once. A file that was not among those of the call before is recorded
  /// only. Call it about once a second.
  bool changed(const std::vector<std::string>& files);

 private:
  /// The file that a path leads to; all 0: there is none.
  struct State {
    std::uint64_t device = 0, inode = 0, bytes = 0;
    std::int64_t modified_s = 0, modified_ns = 0;
    bool operator==(const State&) const = default;
  };
  static State state_of(const std::string& file);

  std::map<std::string, State> states_;
  bool unreported_ = false;
};

}  // namespace softhca::control
