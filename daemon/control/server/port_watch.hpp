// What an operator should hear of ports, once.
#pragma once

#include <memory>
#include <vector>

#include "daemon/engine/port_binding.hpp"

namespace softhca::control {

class PortWatch {
 public:
  explicit PortWatch(const std::vector<std::unique_ptr<engine::PortBinding>>& ports)
      : ports_(ports) {}
  /// About once a second: says which ports have begun to send packets singly, since their device
  /// takes no trains; and of those with a socket, which lose packets by its limits.
  void tick();

 private:
  struct Told {
    bool trains = false;
    bool narrow = false;
    bool missed = false;
  };

  const std::vector<std::unique_ptr<engine::PortBinding>>& ports_;
  std::vector<Told> told_;  ///< by port
};

}  // namespace softhca::control
