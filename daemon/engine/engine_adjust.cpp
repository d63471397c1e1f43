// Automatic adjustment of guarantees (mechanism A10). What is lent comes back when its holder asks
// for it, where PCBs and credits are taken (base/quota.hpp); here is what takes its time.
#include "daemon/engine/engine.hpp"

namespace softhca::engine {

void Engine::adjust(const AdjustmentPolicy& policy) {
  if (pcbs_.quota().recalled() != 0) take_from_collecting();
  const auto adjust_group = [&](bool lends, bool present, collect::GroupId group) {
    const Lending lending = !lends ? Lending::kNone : present ? Lending::kIdle : Lending::kAll;
    pcbs_.adjust(group, lending, policy, clock_.now);
  };
  for (const Tenant* tenant : addresses_.tenants()) {
    lends_[tenant->id.value] = tenant->lends;
    adjust_group(tenant->lends, tenant->counters.sessions.value() != 0, tenant->group);
    for (const auto& level : tenant->levels)
      adjust_group(tenant->lends, level->counters.sessions.value() != 0, level->group);
  }
  bool changed = false;
  for (std::uint16_t i = 0; i < tvls_.size(); ++i)
    changed |= tvls_.adjust(TvlId(i), lends_[tvls_[TvlId(i)].tenant.value], policy, clock_.now);
  if (changed) arbitrator_.refresh();
}

/// Does what is bound to its VCBs belong to somebody else, who may want it back?
bool Engine::borrows(const Session& session) const {
  const collect::CollectGroup& group = pcbs_.group(session.group());
  const bool beyond_own = group.pcbs.shared_in_use() != 0;
  if (!beyond_own || group.parent == collect::kNoGroup) return beyond_own;
  return pcbs_.group(group.parent).pcbs.shared_in_use() != 0;
}

/// A command that a process never finishes writing must not keep a borrowed PCB for ever. The VCB
/// still holds all of it, and finds a PCB again when there is one.
void Engine::take_from_collecting() {
  for (const Session* session : sessions_)
    for (std::uint32_t vcb = 0; vcb < session->view.vcbs() && borrows(*session); ++vcb) {
      const PcbId pcb = functions_[VcbId(session->first_vcb.value + vcb)].pcb;
      if (pcb != collect::kNoPcb) collector_.discard(pcb);
    }
}

}  // namespace softhca::engine
