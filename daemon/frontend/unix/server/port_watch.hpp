// SPDX-License-Identifier: Apache-2.0

// Watches the ports: has those with a backup fail over, and logs problems, each of them once. Has
// the method `port.set` of the admin socket: it takes a port out of service, as a cable that is
// pulled, or into it again. A port that is set down stays so for the next adapter.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

class PortWatch {
 public:
  /// `changed` is called when a port was set up or down.
  PortWatch(Adapter& adapter, std::function<void()> changed)
      : adapter_(adapter), changed_(std::move(changed)) {}

  /// Adds the method. This object must outlive it.
  void add_to(AdminMethods& methods);
  /// Sets the ports down that were set down in an earlier adapter.
  void restore(std::span<records::Adopted> left);
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

  RpcResult set(const Json& params, const PeerIdentity& caller);

  Adapter& adapter_;
  std::function<void()> changed_;
  std::map<std::string, records::Record> down_;  ///< that are set down, by name
  std::vector<Told> told_;                       ///< by port
  Time looked_{};
};

}  // namespace softhca::control
