// The methods `revisions`, `diff` and `rollback` of the admin socket.
#include <algorithm>

#include "daemon/control/admin/admin_view.hpp"
#include "daemon/control/reload/reload_json.hpp"

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

/// {after?, limit?}: `revisions` in their order; `next`, when there are more.
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

}  // namespace

void add_revision_methods(AdminMethods& methods, Reloader& reloader) {
  methods.add("revisions", [&reloader](const Json& params) -> RpcResult {
    return list_revisions(reloader.revisions(), params);
  });
  methods.add("diff", [&reloader](const Json&) -> RpcResult {
    const ReloadResult result = reloader.differences();
    if (!result) return error_of(*result.refusal);
    return Json{{"changes", control::to_json(result.plan.differences)}};
  });
  methods.add("rollback", [&reloader](const Json& params, const PeerIdentity& caller) -> RpcResult {
    const ReloadResult result =
        reloader.rollback(params.at("revision").get<std::uint64_t>(), actor_of(caller));
    if (!result) return error_of(*result.refusal);
    return changes_made(result);
  });
}

}  // namespace softhca::control
