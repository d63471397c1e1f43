// SPDX-License-Identifier: Apache-2.0

// VCBs of tenants and levels when a configuration comes into force. Only the control thread uses
// their accounts.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/engine/requests/tenant_allocations.hpp"

namespace softhca::control {

using engine::TenantAllocationChange;

/// Takes back the guarantees of a tenant without sessions.
void take_vcbs(QuotaPool& pool, engine::Tenant& tenant);

/// Changes guarantees. Those that shrink go before those that grow.
class VcbChange {
 public:
  /// `added`: the tenants that are being added to the adapter.
  VcbChange(Adapter& adapter, const std::vector<std::unique_ptr<engine::Tenant>>& added);

  /// Error: not enough VCBs are free; the change may then be half made.
  Outcome apply(const TenantAllocationChange& change);
  /// Restores the state in which this object was made.
  void undo();

 private:
  Outcome apply(const TenantAllocationChange::Row& row, const TenantAllocationChange& change,
                bool shrink);
  bool set_levels(const TenantAllocationChange::Row& row, const std::vector<engine::Level*>& levels,
                  bool shrink);
  bool set_total(const TenantAllocationChange::Row& row, const std::vector<engine::Level*>& levels,
                 bool shrink);

  QuotaPool& pool_;
  QuotaPool pool_before_;
  std::vector<std::pair<Quota*, Quota>> before_;
};

}  // namespace softhca::control
