#include "daemon/schedule/tvl_table.hpp"

#include <cerrno>
#include <string>

namespace softhca::schedule {
namespace {

std::string name(const TvlConfig& c, std::size_t index) {
  return "TVL " + std::to_string(index) + " of tenant " + std::to_string(c.tenant.value);
}

Error over_commit(const std::string& who, const char* what, std::uint32_t asked,
                  const QuotaPool& pool) {
  return {who + ": asked for " + std::to_string(asked) + " " + what + ", " +
              std::to_string(pool.shared_free()) + " of " + std::to_string(pool.total()) +
              " are free to be allocated",
          ENOSPC};
}

}  // namespace

TvlTable::TvlTable(const Config& config)
    : max_tvls_(config.max_tvls),
      execution_(config.execution_credits),
      completion_(config.completion_credits),
      tenants_(config.max_tenants) {
  tvls_.reserve(max_tvls_);
}

Expected<TvlId> TvlTable::add(const TvlConfig& c) {
  const std::string who = name(c, tvls_.size());
  if (tvls_.size() == max_tvls_)
    return Error{who + ": the table holds " + std::to_string(max_tvls_) + " TVLs", ENOSPC};
  if (c.tenant.value >= tenants_.size())
    return Error{who + ": tenants are numbered below " + std::to_string(tenants_.size()), EINVAL};
  if (c.weight == 0) return Error{who + ": weight must be at least 1", EINVAL};
  if (c.max_kick_list == 0) return Error{who + ": kick list must hold at least 1", EINVAL};
  if (!c.may_share && (c.execution_guaranteed == 0 || c.completion_guaranteed == 0))
    return Error{who + ": without own credits and without shared ones nothing can start", EINVAL};

  Tvl tvl;
  tvl.tenant = c.tenant;
  tvl.purpose = c.purpose;
  tvl.weight = c.weight;
  tvl.max_kick_list = c.max_kick_list;
  tvl.execution.may_share = tvl.completion.may_share = c.may_share;
  if (!execution_.set_guarantee(tvl.execution, c.execution_guaranteed))
    return over_commit(who, "execution credits", c.execution_guaranteed, execution_);
  if (!completion_.set_guarantee(tvl.completion, c.completion_guaranteed)) {
    execution_.set_guarantee(tvl.execution, 0);
    return over_commit(who, "completion credits", c.completion_guaranteed, completion_);
  }
  const TvlId id(static_cast<std::uint16_t>(tvls_.size()));
  tvls_.push_back(tvl);
  tenants_[c.tenant.value].of_purpose[static_cast<int>(c.purpose)].push_back(id);
  return id;
}

std::optional<TvlId> TvlTable::pick_tvl(TenantId tenant, Qpn qpn, TvlPurpose purpose) const {
  const auto& lanes = tenants_[tenant.value].of_purpose[static_cast<int>(purpose)];
  if (lanes.empty()) return std::nullopt;
  return lanes[qpn.value % lanes.size()];
}

}  // namespace softhca::schedule
