// The VCBs of one session (A1): how many it has, and how many it should have by what it posts.
//
// A session has room for kMaxVcbsPerSession of them from its beginning; how many of these it may
// use changes while its program runs. Lives on the control thread.
#pragma once

#include <cstdint>

#include "daemon/control/adapter/adapter.hpp"

namespace softhca::control {

/// How many VCBs a process may have, by the settings of its tenant.
struct VcbBounds {
  std::uint32_t base;  ///< that it has, where there are so many
  std::uint32_t most;  ///< that it gets when it posts more at once; at least `base`
};
VcbBounds vcb_bounds(const resource::TenantConfig& tenant);

class VcbGrant {
 public:
  /// Looks without a miss after which a session gives back half of what it has beyond its base.
  static constexpr unsigned kQuietLooks = 10;

  VcbGrant(Adapter& adapter, engine::Tenant& tenant) : adapter_(adapter), tenant_(tenant) {}
  /// REQUIRES: the engine has let go of the session.
  ~VcbGrant() { close(); }
  VcbGrant(const VcbGrant&) = delete;
  VcbGrant& operator=(const VcbGrant&) = delete;

  /// Takes room, and `wanted` VCBs or as many as the level (null: the tenant, which has no levels)
  /// may still have. Without any, a process works by doorbells alone. REQUIRES: closed.
  void open(engine::Level* level, std::uint32_t wanted);
  void close();

  VcbId first() const { return first_; }
  std::uint32_t places() const { return places_; }
  std::uint32_t count() const { return count_; }
  const engine::Tenant& tenant() const { return tenant_; }

  /// How many it should have. `missed`: posts that found too few VCBs free, so far. Each call is a
  /// look; about one a second.
  std::uint32_t wanted(std::uint64_t missed, VcbBounds bounds);
  /// Is something of what it has beyond nobody's guarantee but the shared rest?
  bool draws_shared() const;

  /// Takes more, up to `count`; `shared`: also from what nobody is guaranteed. The engine is to
  /// grant them.
  void take(std::uint32_t count, bool shared);
  /// Gives back what the engine has revoked: `count` stay.
  void put(std::uint32_t count);

 private:
  bool is_guaranteed_more() const;

  Adapter& adapter_;
  engine::Tenant& tenant_;
  engine::Level* level_ = nullptr;
  VcbId first_;
  std::uint32_t places_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t missed_ = 0;  ///< at the last look
  unsigned quiet_ = 0;        ///< looks without a miss
};

struct VcbHolder {
  VcbGrant* grant;
  engine::Session* session;
};

}  // namespace softhca::control
