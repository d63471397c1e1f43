// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/config_watch.hpp"

#include <sys/stat.h>

#include <utility>

namespace softhca::control {

ConfigWatch::ConfigWatch(const std::vector<std::string>& files) {
  for (const std::string& file : files) states_[file] = state_of(file);
}

ConfigWatch::State ConfigWatch::state_of(const std::string& file) {
  struct stat found;
  if (::stat(file.c_str(), &found) != 0) return {};
  return {.device = found.st_dev,
          .inode = found.st_ino,
          .bytes = static_cast<std::uint64_t>(found.st_size),
          .modified_s = found.st_mtim.tv_sec,
          .modified_ns = found.st_mtim.tv_nsec};
}

bool ConfigWatch::changed(const std::vector<std::string>& files) {
  std::map<std::string, State> states;
  bool differs = false;
  for (const std::string& file : files) {
    const State state = state_of(file);
    const auto before = states_.find(file);
    differs = differs || (before != states_.end() && before->second != state);
    states[file] = state;
  }
  states_ = std::move(states);
  if (differs) unreported_ = true;
  return !differs && std::exchange(unreported_, false);
}

}  // namespace softhca::control
