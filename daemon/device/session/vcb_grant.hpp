// SPDX-License-Identifier: Apache-2.0

// The VCBs of one session (A1): the number that it has, and the number that it should have by what
// it posts.
//
// A session has room for kMaxVcbsPerSession VCBs from its start. The number of these that it may
// use changes while its program runs. Runs on the control thread.
#pragma once

#include <cstdint>

#include "daemon/device/adapter/adapter.hpp"

namespace softhca::control {

/// The number of VCBs that a process may have, by the settings of its tenant.
struct VcbBounds {
  std::uint32_t base;  ///< the number that it has, if enough are free
  std::uint32_t most;  ///< the number that it gets when it posts more at once; at least `base`
};
VcbBounds vcb_bounds(const configuration::TenantConfig& tenant);

class VcbGrant {
 public:
  /// Polls without a miss after which a session gives back half of what it has beyond its base.
  static constexpr unsigned kQuietLooks = 10;

  VcbGrant(Adapter& adapter, engine::Tenant& tenant) : adapter_(adapter), tenant_(tenant) {}
  /// REQUIRES: the engine has dropped the session.
  ~VcbGrant() { close(); }
  VcbGrant(const VcbGrant&) = delete;
  VcbGrant& operator=(const VcbGrant&) = delete;

  /// Takes room, and `wanted` VCBs or as many as the level (null: the tenant, which has no levels)
  /// may still have. A process without VCBs uses only doorbells. REQUIRES: closed.
  void open(engine::Level* level, std::uint32_t wanted);
  void close();

  VcbId first() const { return first_; }
  std::uint32_t places() const { return places_; }
  std::uint32_t count() const { return count_; }
  const engine::Tenant& tenant() const { return tenant_; }

  /// Returns the number that the session should have. `missed`: posts that found too few VCBs free,
  /// so far. Each call is a poll; call it about once a second.
  std::uint32_t wanted(std::uint64_t missed, VcbBounds bounds);
  /// True if the tenant, and the level if it has one, use VCBs of the shared rest beyond their
  /// guarantees.
  bool draws_shared() const;

  /// Takes more VCBs, up to `count`. `shared`: also from the shared rest. The caller makes the
  /// engine grant them.
  void take(std::uint32_t count, bool shared);
  /// Gives back VCBs that the engine has revoked; `count` stay.
  void put(std::uint32_t count);

 private:
  bool is_guaranteed_more() const;

  Adapter& adapter_;
  engine::Tenant& tenant_;
  engine::Level* level_ = nullptr;
  VcbId first_;
  std::uint32_t places_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t missed_ = 0;  ///< at the last poll
  unsigned quiet_ = 0;        ///< polls without a miss
};

struct VcbHolder {
  VcbGrant* grant;
  engine::Session* session;
};

}  // namespace softhca::control
