// SPDX-License-Identifier: Apache-2.0

// Watches the ports: has those with a backup fail over, and logs problems, each of them once.
#pragma once

#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/device/adapter/adapter.hpp"

namespace softhca::control {

class PortWatch {
 public:
  explicit PortWatch(Adapter& adapter) : adapter_(adapter) {}
  /// Returns when look() is to be called next; kNever if no port has a backup.
  Time next_look() const;
  /// Has ports without a carrier use their backup.
  void look(Time now);
  /// Logs which ports send packets singly, as their device takes no trains, and which ports with a
  /// socket lose packets by its limits. Call it about once a second.
  void tick();

 private:
  struct Told {
    bool trains = false;
    bool narrow = false;
    bool missed = false;
  };

  Adapter& adapter_;
  std::vector<Told> told_;  ///< by port
  Time looked_{};
};

}  // namespace softhca::control
