// SPDX-License-Identifier: Apache-2.0

#include "daemon/control_thread/process_name.hpp"

#include <fstream>

namespace softhca::control {

std::string name_of_process(pid_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

std::string printable(std::string name) {
  for (char& c : name)
    if (c < 0x21 || c > 0x7e || c == '"' || c == '\\') c = '?';
  return name;
}

std::string describe(const PeerIdentity& process) {
  const std::string name = printable(name_of_process(process.pid));
  return "process " + std::to_string(process.pid) + " (" + (name.empty() ? "" : name + ", ") +
         "uid " + std::to_string(process.uid) + ")";
}

}  // namespace softhca::control
