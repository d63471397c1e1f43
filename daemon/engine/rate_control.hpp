// Rates of tenants. A tenant whose rate is used up is throttled where its commands come in: its
// VCBs and doorbells are left where they are, in its own memory, and the send queue scheduler
// passes it over. What has started goes on, so that no packet, acknowledgement or retry waits for a
// rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/rate_limits.hpp"
#include "daemon/engine/clock.hpp"
#include "daemon/engine/tenant.hpp"

namespace softhca::engine {

class RateControl {
 public:
  explicit RateControl(const StepClock& clock) : clock_(clock) {}

  /// Allocates, for so many tenants at once.
  void reserve(std::size_t tenants) { throttled_.reserve(tenants); }
  /// Takes effect with the next command; a debt stays.
  void set(Tenant& tenant, const RateLimits& limits) {
    tenant.rate.set({limits.bytes_per_second, limits.burst_bytes},
                    {limits.messages_per_second, limits.burst_messages}, clock_.now);
  }
  /// A message of the tenant starts.
  void charge(Tenant& tenant, std::uint32_t bytes);
  /// The tenant is going.
  void forget(Tenant& tenant) { std::erase(throttled_, &tenant); }

  /// Calls `go_on(Tenant&)` for tenants that are no longer throttled.
  template <class GoOn>
  void release(GoOn&& go_on) {
    std::erase_if(throttled_, [&](Tenant* tenant) {
      if (clock_.now < tenant->rate.ready_at()) return false;
      end(*tenant);
      go_on(*tenant);
      return true;
    });
  }
  /// When the next tenant is released.
  Time next_release() const;

 private:
  void end(Tenant& tenant);

  const StepClock& clock_;
  std::vector<Tenant*> throttled_;
};

}  // namespace softhca::engine
