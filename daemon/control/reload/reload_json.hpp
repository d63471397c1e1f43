// Requests and changes as the admin socket and the file of saved changes have them.
#pragma once

#include <string>
#include <vector>

#include "daemon/control/admin/admin_methods.hpp"
#include "daemon/control/reload/reload.hpp"

namespace softhca::control {

/// Why a reload or a request was refused.
RpcError error_of(const ReloadRefusal& refused);

/// [{"text", "kind", "section", "name"?, "tvl"?, "key"?, "from"?, "to"?, "refusal"?}...]
Json to_json(const std::vector<resource::Difference>& differences);

/// What a change that was made is answered with: {"changes", "kept"?}
Json changes_made(const ReloadResult& result);

/// What a request would do, or why it would be refused.
RpcResult planned_or_refused(const PlannedRequest& planned);

/// {"tenant": T, "level"?: L, "tvl"?: I, "resource": "pcbs", "amount": N}
Json to_json(const resource::AllocationChange& change);
/// {"number", "changes"}, changes as above
Json to_json(const resource::SavedRequest& request);
/// One change as above, or a list of them under "changes". `self`: the tenant where none is named;
/// empty: one must be named.
Expected<std::vector<resource::AllocationChange>> changes_of(const Json& params,
                                                             const std::string& self);

/// {"name", "template", "addresses"?: [text...], "owner"?, "group"?, "mode"?}
Json to_json(const resource::TenantRequest& request);
Expected<resource::TenantRequest> tenant_request_of(const Json& params);

/// What a tenant says of one of its levels: {"level": L, "default"?, "dscp"?, "cgroups"?:
/// [PATH...], "service_levels"?: [N...], "traffic_classes"?: [N...], RESOURCE: AMOUNT...}, or a
/// list of them under "levels".
Expected<std::vector<resource::LevelEdit>> level_edits_of(const Json& params,
                                                          const std::string& tenant);

}  // namespace softhca::control
