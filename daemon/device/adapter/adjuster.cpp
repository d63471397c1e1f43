// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/adjuster.hpp"

#include "daemon/engine/requests/tenant_requests.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::control {
namespace {

std::string text_of(const Lent& lent) {
  std::string text;
  const auto add = [&](std::uint64_t amount, const char* what) {
    if (amount != 0) text += (text.empty() ? "" : ", ") + std::to_string(amount) + " " + what;
  };
  add(lent.pcbs, "pcbs");
  add(lent.execution_credits, "execution_credits");
  add(lent.completion_credits, "completion_credits");
  return text.empty() ? "nothing" : text;
}

bool has_more(const Lent& now, const Lent& before) {
  return now.pcbs > before.pcbs || now.execution_credits > before.execution_credits ||
         now.completion_credits > before.completion_credits;
}

}  // namespace

Lent lent_by(const engine::EngineView& engine, const engine::Tenant& tenant) {
  Lent lent;
  lent.pcbs = engine.pcbs.group(tenant.qos_class).pcbs.lent.value();
  for (const auto& level : tenant.levels)
    lent.pcbs += engine.pcbs.group(level->qos_class).pcbs.lent.value();
  for (std::uint16_t i = 0; i < engine.tvls.size(); ++i) {
    const schedule::Tvl& tvl = engine.tvls[TvlId(i)];
    if (!tvl.used || tvl.tenant != tenant.id) continue;
    lent.execution_credits += tvl.execution.lent.value();
    lent.completion_credits += tvl.completion.lent.value();
  }
  return lent;
}

bool Adjuster::is_needed() const {
  const engine::EngineView& engine = adapter_.engine;
  return adapter_.config.adjustment.automatic || engine.pcbs.quota().lent() != 0 ||
         engine.tvls.execution_pool().lent() != 0 || engine.tvls.completion_pool().lent() != 0;
}

void Adjuster::tick() {
  if (!is_needed() && told_.empty()) return;
  const configuration::AdjustmentConfig& config = adapter_.config.adjustment;
  engine::AdjustLending adjust{.lends = {}, .policy = {.idle = config.idle}};
  for (const auto& tenant : adapter_.tenants)
    adjust.lends.emplace_back(tenant.get(), config.automatic && (tenant->control.leaving ||
                                                                 adapter_.settings(*tenant).lends));
  adapter_.worker.run(adjust);
  tell();
}

void Adjuster::tell() {
  std::map<std::string, Lent> now;
  for (const auto& tenant : adapter_.tenants) {
    const Lent lent = lent_by(adapter_.engine, *tenant);
    const auto told = told_.find(tenant->name);
    const Lent before = told == told_.end() ? Lent{} : told->second;
    if (lent.any()) now.emplace(tenant->name, lent);
    if (lent == before) continue;
    adapter_.journal.add(
        {.kind = has_more(lent, before) ? "guarantee_lent" : "guarantee_recalled",
         .tenant = tenant->name,
         .text = "lends " + text_of(lent) + " of its guarantees; before: " + text_of(before)});
  }
  told_ = std::move(now);
}

}  // namespace softhca::control
