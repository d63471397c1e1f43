// SPDX-License-Identifier: Apache-2.0

// The methods `tenant.create` and `tenant.remove` of the admin socket.
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/reload/reload_json.hpp"

namespace softhca::control {

void add_tenant_methods(AdminMethods& methods, Reloader& reloader) {
  methods.add(
      "tenant.create", [&reloader](const Json& params, const PeerIdentity& caller) -> RpcResult {
        const auto request = tenant_request_of(params);
        if (!request) return invalid_params(request.error().message);
        const ReloadResult result =
            reloader.create_tenant(*request, actor_of(caller), param(params, "save", false));
        if (!result) return error_of(*result.refusal);
        Json out = changes_made(result);
        out["socket"] = reloader.socket_of(request->name);
        out["addresses"] = to_json(reloader.layers().find(request->name)->request).at("addresses");
        return out;
      });
  methods.add("tenant.remove",
              [&reloader](const Json& params, const PeerIdentity& caller) -> RpcResult {
                const auto name = params.at("name").get<std::string>();
                const ReloadResult result =
                    reloader.remove_tenant(name, param(params, "end", false), actor_of(caller));
                if (!result) return error_of(*result.refusal);
                Json out = changes_made(result);
                if (const auto connections = reloader.draining(name))
                  out["draining"] = *connections;
                return out;
              });
}

}  // namespace softhca::control
