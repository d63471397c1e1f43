#include "daemon/control/sockets/process_name.hpp"

#include <fstream>

namespace softhca::control {

std::string name_of_process(pid_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

}  // namespace softhca::control
