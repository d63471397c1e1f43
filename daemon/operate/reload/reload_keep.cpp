// SPDX-License-Identifier: Apache-2.0

// What is in force, as the next adapter takes it up.
#include <spdlog/spdlog.h>

#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/reload/reload.hpp"

namespace softhca::control {

/// Adds a revision, unless nothing has changed, and keeps the state. Departures that end later are
/// in it. This does no harm: they end again.
void Reloader::record(const char* cause, const Actor& by, const ReloadResult& result) {
  if (!result.plan.empty())
    revisions_.add(cause, by, result.plan, adapter_.config, given_, layers_);
  if (adapter_.keeping == nullptr) return;
  ReloadState state{.file = layers_.file(),
                    .in_force = adapter_.config,
                    .given = given_.tenants,
                    .on_demand = layers_.tenants(),
                    .own = layers_.own(),
                    .left_out = layers_.left_out(),
                    .absent = layers_.absent(),
                    .leaving = {},
                    .leaving_levels = {},
                    .former = {},
                    .version = adapter_.lineage.version,
                    .started = adapter_.lineage.started,
                    .identity = adapter_.identity};
  for (const Departures::OfTenant& leaving : departures_.tenants())
    state.leaving.push_back(adapter_.settings(*leaving.tenant));
  for (const Departures::OfLevel& leaving : departures_.levels())
    state.leaving_levels.push_back({leaving.tenant->name, leaving.settings});
  for (const FormerAddresses::Entry& former : former_.all()) {
    const engine::Tenant::Address& address = former.address;
    state.former.push_back(
        {.tenant = former.tenant->name,
         .device = address.device,
         .port = address.port ? std::optional(address.port->value) : std::nullopt,
         .address = {address.gid, former.prefix}});
  }
  auto kept = keep_state(adapter_.kept, state);
  if (kept)
    kept_ = std::move(*kept);
  else
    spdlog::error("after a restart, an earlier configuration would be in force: {}",
                  kept.error().message);
}

void Reloader::resume() {
  if (const auto earlier = std::exchange(earlier_, std::nullopt)) {
    if (earlier->has_leavers())
      if (const ReloadResult left = put(earlier->in_force); !left)
        for (const std::string& line : left.refusal->lines)
          spdlog::error("programs that were leaving stay: {}", line);
    given_ = adapter_.config;
    given_.tenants = earlier->given;
    revisions_.add("restart", {}, {}, adapter_.config, given_, layers_);
  }
  record("", {}, {});
}

}  // namespace softhca::control
