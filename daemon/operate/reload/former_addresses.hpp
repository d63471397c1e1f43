// SPDX-License-Identifier: Apache-2.0

// Addresses that a tenant or port no longer has, and that sessions may still use.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/device/adapter/adapter.hpp"

namespace softhca::control {

class FormerAddresses {
 public:
  struct Entry {
    engine::Tenant* tenant = nullptr;
    engine::Tenant::Address address;
    std::uint32_t session = 0;  ///< sessions with lower numbers may have the address
    std::uint8_t prefix = 0;    ///< of its port, if that had it
  };

  /// Records the addresses that tenants lose when `wanted` comes into force in place of `before`.
  /// Sessions have numbers below `next_session`.
  void change(const std::vector<std::unique_ptr<engine::Tenant>>& tenants,
              const configuration::Config& before, const configuration::Config& wanted,
              std::uint32_t next_session);
  /// Removes and returns the entries that no session can use any longer: is_over(entry) is true for
  /// them.
  template <class IsOver>
  std::vector<Entry> take_over(IsOver&& is_over) {
    std::vector<Entry> gone;
    std::erase_if(entries_, [&](const Entry& entry) {
      if (!is_over(entry)) return false;
      gone.push_back(entry);
      return true;
    });
    return gone;
  }
  /// Drops the addresses of a tenant that is gone.
  void forget(const engine::Tenant& tenant);

  const std::vector<Entry>& all() const { return entries_; }
  std::vector<engine::Tenant::Address> of(const engine::Tenant& tenant) const;
  /// True if `gid` is a former address of a tenant.
  bool contains(const Gid& gid) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace softhca::control
