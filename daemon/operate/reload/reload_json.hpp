// SPDX-License-Identifier: Apache-2.0

// Requests and changes in the JSON of the admin socket and of the file of saved changes.
#pragma once

#include <string>
#include <vector>

#include "daemon/operate/admin/admin_methods.hpp"
#include "daemon/operate/reload/reload.hpp"

namespace softhca::control {

/// Returns the error for a refused reload or request.
RpcError error_of(const ReloadRefusal& refused);

/// Returns [{"text", "kind", "section", "name"?, "tvl"?, "key"?, "from"?, "to"?, "refusal"?}...].
Json to_json(const std::vector<configuration::Difference>& differences);

/// Returns the answer to a change that was made: {"changes", "kept"?}.
Json changes_made(const ReloadResult& result);

/// Returns what a request would do, or the reason for which it would be refused.
RpcResult planned_or_refused(const PlannedRequest& planned);

/// Returns {"tenant": T, "level"?: L, "tvl"?: I, "resource": "pcbs", "amount": N}.
Json to_json(const configuration::AllocationChange& change);
/// Returns {"number", "changes"}, with changes as above.
Json to_json(const configuration::SavedRequest& request);
/// Reads one change as above, or a list of them under "changes". `self`: the tenant of a change
/// that names none; empty: each must name one.
Expected<std::vector<configuration::AllocationChange>> changes_of(const Json& params,
                                                                  const std::string& self);

/// Returns {"name", "template", "addresses"?: [text...], "owner"?, "group"?, "mode"?}.
Json to_json(const configuration::TenantRequest& request);
Expected<configuration::TenantRequest> tenant_request_of(const Json& params);

/// Reads a tenant's change of one of its levels, or a list of them under "levels": {"level": L,
/// "default"?, "dscp"?, "cgroups"?: [PATH...], "service_levels"?: [N...], "traffic_classes"?:
/// [N...], RESOURCE: AMOUNT...}.
Expected<std::vector<configuration::LevelEdit>> level_edits_of(const Json& params,
                                                               const std::string& tenant);

}  // namespace softhca::control
