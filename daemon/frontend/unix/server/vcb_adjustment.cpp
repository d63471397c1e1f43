// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/vcb_adjustment.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "daemon/engine/records/session.hpp"
#include "daemon/engine/requests/session_requests.hpp"

namespace softhca::control {
namespace {

struct Wish {
  VcbHolder holder;
  VcbBounds bounds;
  std::uint32_t count;

  bool is_short() const { return holder.grant->count() < bounds.base; }
};

/// True if less than a quarter of the shared part is free, or more VCBs are in use than there are.
bool is_tight(const QuotaPool& vcbs) {
  return vcbs.overdrawn() != 0 || vcbs.shared_free() < vcbs.shared() / 4;
}

/// Halves what a program has beyond its base if programs of its tenant lack their base. Does the
/// same to a program with shared VCBs if any program lacks its base, or shared VCBs are short.
void make_room(std::vector<Wish>& wishes, const QuotaPool& vcbs) {
  std::set<const engine::Tenant*> lacking;
  for (const Wish& wish : wishes)
    if (wish.is_short()) lacking.insert(&wish.holder.grant->tenant());
  const bool tight = is_tight(vcbs) || !lacking.empty();
  for (Wish& wish : wishes) {
    const VcbGrant& grant = *wish.holder.grant;
    const std::uint32_t base = wish.bounds.base;
    if (grant.count() <= base) continue;
    if (!lacking.contains(&grant.tenant()) && !(tight && grant.draws_shared())) continue;
    wish.count = std::min(wish.count, base + (grant.count() - base) / 2);
  }
}

void take_back(Adapter& adapter, const std::vector<Wish>& wishes) {
  std::vector<VcbGrant*> grants;
  std::vector<engine::VcbTarget> targets;
  for (const Wish& wish : wishes) {
    if (wish.count >= wish.holder.grant->count()) continue;
    grants.push_back(wish.holder.grant);
    targets.push_back({wish.holder.session, wish.count});
  }
  adapter.worker.run(engine::RevokeVcbs{targets});
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::uint32_t before = grants[i]->count();
    grants[i]->put(targets[i].count);
    targets[i].session->tenant->control.vcbs_taken_back.add(before - grants[i]->count());
  }
}

void hand_out(Adapter& adapter, const std::vector<Wish>& wishes) {
  const bool shared = !is_tight(adapter.vcbs);
  for (const Wish& wish : wishes) wish.holder.grant->take(wish.count, shared || wish.is_short());
  std::vector<engine::VcbTarget> targets;
  for (const Wish& wish : wishes) {
    const std::uint32_t granted = wish.holder.session->view.granted();
    const std::uint32_t count = wish.holder.grant->count();
    if (count <= granted) continue;
    targets.push_back({wish.holder.session, count});
    wish.holder.session->tenant->control.vcbs_added.add(count - granted);
  }
  adapter.worker.run(engine::GrantVcbs{targets});
}

}  // namespace

void adjust_vcbs(Adapter& adapter, std::span<const VcbHolder> holders) {
  std::vector<Wish> wishes;
  for (const VcbHolder& holder : holders) {
    const engine::Tenant& tenant = holder.grant->tenant();
    if (tenant.control.leaving) continue;
    const VcbBounds bounds = vcb_bounds(adapter.settings(tenant));
    wishes.push_back(
        {holder, bounds, holder.grant->wanted(holder.session->vcbs_missed.value(), bounds)});
  }
  make_room(wishes, adapter.vcbs);
  const auto wants = [&](auto&& than) {
    return std::any_of(wishes.begin(), wishes.end(), [&](const Wish& wish) {
      return than(wish.count, wish.holder.grant->count());
    });
  };
  if (wants(std::less<>())) take_back(adapter, wishes);
  if (wants(std::greater<>())) hand_out(adapter, wishes);
}

}  // namespace softhca::control
