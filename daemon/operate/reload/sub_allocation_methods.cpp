// SPDX-License-Identifier: Apache-2.0

// The methods of tenants' control sockets that change something: `set`, and those for levels. The
// `set` of the admin socket is in reload_methods.cpp.
#include <algorithm>
#include <deque>
#include <memory>

#include "daemon/base/token_bucket.hpp"
#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/reload/reload_json.hpp"

namespace softhca::control {
namespace {

/// Limits the names that a tenant gives its levels. Each name is a label value in the metrics, and
/// the operator's monitoring keeps the series of old names.
class LevelNames {
 public:
  static constexpr std::uint64_t kAtOnce = 32;
  static constexpr std::uint64_t kSeconds = 600;  ///< until the tenant may use one more new name

  LevelNames() { fresh_.set({.per_second = 1, .burst = kAtOnce * kSeconds}, now()); }

  /// True if the tenant may use this name. A refused name is not counted.
  bool take(const std::string& name) {
    if (std::ranges::find(known_, name) != known_.end()) return true;
    if (fresh_.ready_at() > now()) return false;
    fresh_.charge(kSeconds, now());
    known_.push_back(name);
    if (known_.size() > kKnown) known_.pop_front();
    return true;
  }

 private:
  static constexpr std::size_t kKnown = 64;

  TokenBucket fresh_;
  std::deque<std::string> known_;
};

RpcError too_many_names() {
  return {RpcCode::kRefused,
          "the tenant has used its new names for levels (" + std::to_string(LevelNames::kAtOnce) +
              ", and one more every " + std::to_string(LevelNames::kSeconds) +
              " s); reuse an earlier name, or wait; nothing was changed",
          Json{{"resource", "levels"}, {"asked", 1}, {"free", 0}}};
}

RpcResult answer_of(const ReloadResult& result) {
  if (!result) return error_of(*result.refusal);
  return changes_made(result);
}

void add_own_set(AdminMethods& methods, Reloader& reloader, const engine::Tenant& tenant) {
  methods.add("set",
              [&reloader, &tenant](const Json& params, const PeerIdentity& caller) -> RpcResult {
                const auto changes = changes_of(params, tenant.name);
                if (!changes) return invalid_params(changes.error().message);
                if (param(params, "save", false))
                  return RpcError{RpcCode::kNotAllowed,
                                  "only the operator can save; what a tenant sets stays in force "
                                  "after reloads that leave room for it, and ends with the daemon; "
                                  "nothing was changed",
                                  {}};
                if (param(params, "dry_run", false))
                  return planned_or_refused(reloader.plan_own_change(tenant, *changes));
                return answer_of(reloader.change_own(tenant, *changes, actor_of(caller)));
              });
}

/// Adds `level.make` or `level.change`.
void add_edit(AdminMethods& methods, Reloader& reloader, const engine::Tenant& tenant,
              const std::shared_ptr<LevelNames>& names, bool make) {
  methods.add(
      make ? "level.make" : "level.change",
      [&reloader, &tenant, names, make](const Json& params,
                                        const PeerIdentity& caller) -> RpcResult {
        auto edits = level_edits_of(params, tenant.name);
        if (!edits) return invalid_params(edits.error().message);
        for (configuration::LevelEdit& edit : *edits) edit.make = make;
        if (make &&
            !std::ranges::all_of(*edits, [&](const auto& edit) { return names->take(edit.level); }))
          return too_many_names();
        return answer_of(reloader.divide(
            tenant,
            [&](const configuration::TenantConfig& given, configuration::SubAllocation& division) {
              return edit_levels(given, division, *edits);
            },
            make ? "level made" : "level changed", actor_of(caller)));
      });
}

}  // namespace

void add_sub_allocation_methods(AdminMethods& methods, Reloader& reloader,
                                const engine::Tenant& tenant) {
  add_own_set(methods, reloader, tenant);
  const auto names = std::make_shared<LevelNames>();
  add_edit(methods, reloader, tenant, names, true);
  add_edit(methods, reloader, tenant, names, false);
  methods.add(
      "level.remove",
      [&reloader, &tenant](const Json& params, const PeerIdentity& caller) -> RpcResult {
        const auto level = params.at("level").get<std::string>();
        return answer_of(reloader.divide(
            tenant,
            [&](const configuration::TenantConfig& given, configuration::SubAllocation& division) {
              return remove_level(given, division, level);
            },
            "level removed", actor_of(caller)));
      });
  methods.add(
      "level.rename",
      [&reloader, &tenant, names](const Json& params, const PeerIdentity& caller) -> RpcResult {
        const auto from = params.at("level").get<std::string>();
        const auto to = params.at("to").get<std::string>();
        if (!names->take(to)) return too_many_names();
        return answer_of(reloader.rename_own_level(tenant, from, to, actor_of(caller)));
      });
}

}  // namespace softhca::control
