// SPDX-License-Identifier: Apache-2.0

// Logs problems of ports, each of them once.
#pragma once

#include <memory>
#include <vector>

#include "daemon/engine/ports/port_binding.hpp"

namespace softhca::control {

class PortWatch {
 public:
  explicit PortWatch(const std::vector<std::unique_ptr<engine::PortBinding>>& ports)
      : ports_(ports) {}
  /// Logs which ports send packets singly, as their device takes no trains, and which ports with a
  /// socket lose packets by its limits. Call it about once a second.
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
