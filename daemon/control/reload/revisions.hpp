// Revisions: every change of what is in force, with when, by whom and what, and the allocations it
// left behind, so that they can be put into force again. Bounded: the last of all, and for each
// tenant the last that it made itself, so that a tenant that changes much pushes out none but its
// own. Belongs to the control thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/control/reload/layers.hpp"
#include "daemon/control/sockets/unix_socket.hpp"
#include "daemon/resource/overlay.hpp"
#include "daemon/resource/reload_plan.hpp"

namespace softhca::control {

/// Who changes something.
struct Actor {
  PeerIdentity peer;    ///< process 0: none, it was a signal or the daemon itself
  std::string program;  ///< of the peer
  std::string tenant;   ///< it asked for itself; empty: the operator
};

/// The process that asks, as it is called now.
Actor actor_of(const PeerIdentity& peer);

/// Tenants as they were. Those that are the same in several revisions are kept once.
using KeptTenants = std::vector<std::shared_ptr<const resource::TenantConfig>>;

struct Revision {
  std::uint64_t number = 0;  ///< counts from 1
  std::chrono::system_clock::time_point time{};
  std::string cause;  ///< "start", "reload", "set", "tenant create", "tenant remove", "rollback"
  Actor actor;
  std::vector<resource::Difference> differences;  ///< the first kMostDifferences
  std::size_t more = 0;                           ///< those beyond
  KeptTenants in_force;
  resource::OwnDivisions own;
  std::shared_ptr<const std::vector<resource::TenantOnDemand>> on_demand;  ///< of those in force
  KeptTenants given;  ///< without what tenants have changed of their own

  static constexpr std::size_t kMostDifferences = 1000;
};

class Revisions {
 public:
  static constexpr std::size_t kKept = 64;         ///< of the operator's and the daemon's
  static constexpr std::size_t kKeptOfTenant = 8;  ///< of each tenant's own

  /// `in_force`, `given`: what is in force now, with and without changes of tenants' own.
  /// `layers`: what lies over the file.
  void add(std::string cause, Actor actor, const resource::ReloadPlan& plan,
           const resource::Config& in_force, const resource::Config& given, const Layers& layers);

  /// In the order of their numbers.
  const std::deque<Revision>& all() const { return revisions_; }
  /// Null: there is none of that number, or it is not kept any more.
  const Revision* find(std::uint64_t number) const;

 private:
  KeptTenants keep(const std::vector<resource::TenantConfig>& tenants) const;
  void drop_beyond(const std::string& tenant, std::size_t most);

  std::deque<Revision> revisions_;
  std::uint64_t last_ = 0;
};

/// As a configuration has them.
std::vector<resource::TenantConfig> tenants_of(const KeptTenants& kept);

}  // namespace softhca::control
