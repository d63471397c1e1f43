// SPDX-License-Identifier: Apache-2.0

// The methods `set`, `reload` and `reload.plan` of the admin socket. The `set` of tenants' control
// sockets is in sub_allocation_methods.cpp.
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/reload/reload_json.hpp"

namespace softhca::control {
namespace {

using Cause = ReloadRefusal::Cause;

Json to_json(const configuration::ExpectedShare& share) {
  Json out = Json::object();
  const auto add = [&](const char* name, const configuration::ExpectedAmount& amount) {
    out[name] = {{"guaranteed", amount.guaranteed}, {"ceiling", amount.ceiling}};
  };
  add("vcbs", share.vcbs);
  add("pcbs", share.pcbs);
  add("tvls", share.tvls);
  add("execution_credits", share.execution_credits);
  add("completion_credits", share.completion_credits);
  out["weight"] = share.weight;
  out["weights"] = share.weights;
  out["engine"] = share.engine;
  return out;
}

/// Returns the plan of an accepted request. `before` and `after` have the same entries, as a
/// request changes neither tenants nor their levels.
Json to_json(const PlannedRequest& planned) {
  Json shares = Json::array();
  for (std::size_t i = 0; i < planned.before.size() && i < planned.after.size(); ++i) {
    Json entry = {{"tenant", planned.before[i].tenant},
                  {"before", to_json(planned.before[i])},
                  {"after", to_json(planned.after[i])}};
    if (!planned.before[i].level.empty()) entry["level"] = planned.before[i].level;
    shares.push_back(std::move(entry));
  }
  return Json{{"changes", control::to_json(planned.result.plan.differences)},
              {"shares", std::move(shares)}};
}

}  // namespace

RpcResult planned_or_refused(const PlannedRequest& planned) {
  if (!planned.result) return error_of(*planned.result.refusal);
  return to_json(planned);
}

void add_reload_methods(AdminMethods& methods, Reloader& reloader) {
  methods.add("reload", [&reloader](const Json&, const PeerIdentity& caller) -> RpcResult {
    const ReloadResult result = reloader.reload(actor_of(caller));
    if (!result) return error_of(*result.refusal);
    return changes_made(result);
  });
  methods.add("reload.plan", [&reloader](const Json&) -> RpcResult {
    const ReloadResult result = reloader.plan();
    if (!result && result.refusal->cause == Cause::kBadFile) return error_of(*result.refusal);
    Json out = {{"changes", to_json(result.plan.differences)},
                {"accepted", static_cast<bool>(result)}};
    if (!result) out["refusals"] = result.refusal->lines;
    return out;
  });
  methods.add("set", [&reloader](const Json& params, const PeerIdentity& caller) -> RpcResult {
    const auto changes = changes_of(params, {});
    if (!changes) return invalid_params(changes.error().message);
    if (param(params, "dry_run", false)) return planned_or_refused(reloader.plan_change(*changes));
    const ReloadResult result =
        reloader.change(*changes, actor_of(caller), param(params, "save", false));
    if (!result) return error_of(*result.refusal);
    return changes_made(result);
  });
}

}  // namespace softhca::control
