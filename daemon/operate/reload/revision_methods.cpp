// SPDX-License-Identifier: Apache-2.0

// The methods `revisions`, `diff`, `rollback` and `saved.drop` of the admin socket.
#include <algorithm>

#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/reload/reload_json.hpp"

namespace softhca::control {
namespace {

Json to_json(const Revision& revision) {
  Json out = {{"number", revision.number},
              {"time", std::chrono::duration<double>(revision.time.time_since_epoch()).count()},
              {"cause", revision.cause},
              {"changes", control::to_json(revision.differences)}};
  if (revision.more != 0) out["more"] = revision.more;
  const Actor& actor = revision.actor;
  if (!actor.tenant.empty()) out["tenant"] = actor.tenant;
  if (actor.peer.pid == 0) return out;
  out["pid"] = actor.peer.pid;
  out["uid"] = actor.peer.uid;
  if (!actor.program.empty()) out["comm"] = actor.program;
  return out;
}

/// Lists `revisions` in their order: {after?, limit?}. The answer has `next` if there are more.
RpcResult list_revisions(const Revisions& revisions, const Json& params) {
  const auto after = param<std::uint64_t>(params, "after", 0);
  const std::size_t limit = std::clamp<std::size_t>(page_limit(params), 1, 16);
  Json list = Json::array();
  Json out = Json::object();
  for (const Revision& revision : revisions.all()) {
    if (revision.number <= after) continue;
    if (list.size() == limit) {
      out["next"] = list.back().at("number");
      break;
    }
    list.push_back(to_json(revision));
  }
  out["revisions"] = std::move(list);
  return out;
}

Json saved_requests(const Layers& layers) {
  Json saved = Json::array();
  for (const configuration::SavedRequest& request : layers.saved()) {
    Json entry = control::to_json(request);
    const auto left_out = layers.left_out().find(request.number);
    if (left_out != layers.left_out().end()) entry["left_out"] = left_out->second.message;
    saved.push_back(std::move(entry));
  }
  return saved;
}

Json tenants_on_demand(const Layers& layers) {
  Json tenants = Json::array();
  for (const configuration::TenantOnDemand& made : layers.tenants()) {
    Json entry = control::to_json(made.request);
    entry["saved"] = made.saved;
    const auto absent = layers.absent().find(made.request.name);
    if (absent != layers.absent().end()) entry["left_out"] = absent->second.message;
    tenants.push_back(std::move(entry));
  }
  return tenants;
}

Json difference(const configuration::ReloadPlan& plan, const Layers& layers) {
  Json out = {{"changes", control::to_json(plan.differences)},
              {"saved", saved_requests(layers)},
              {"tenants_on_demand", tenants_on_demand(layers)}};
  if (!layers.problem().empty()) out["saved_problem"] = layers.problem();
  return out;
}

}  // namespace

void add_revision_methods(AdminMethods& methods, Reloader& reloader) {
  methods.add("revisions", [&reloader](const Json& params) -> RpcResult {
    return list_revisions(reloader.revisions(), params);
  });
  methods.add("diff", [&reloader](const Json&) -> RpcResult {
    const ReloadResult result = reloader.differences();
    if (!result) return error_of(*result.refusal);
    return difference(result.plan, reloader.layers());
  });
  methods.add("saved.drop", [&reloader](const Json& params) -> RpcResult {
    const bool all = param(params, "all", false);
    const auto numbers =
        all ? std::vector<std::uint64_t>{} : params.at("numbers").get<std::vector<std::uint64_t>>();
    if (!all && numbers.empty()) return invalid_params("numbers is empty");
    if (const ReloadResult result = reloader.drop_saved(numbers); !result)
      return error_of(*result.refusal);
    return Json{{"saved", saved_requests(reloader.layers())}};
  });
  methods.add("rollback", [&reloader](const Json& params, const PeerIdentity& caller) -> RpcResult {
    const ReloadResult result =
        reloader.rollback(params.at("revision").get<std::uint64_t>(), actor_of(caller));
    if (!result) return error_of(*result.refusal);
    return changes_made(result);
  });
}

}  // namespace softhca::control
