// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/schedule/tvl_table_spread.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

namespace softhca::schedule {
namespace {

std::string name(const TvlTerms& c, std::size_t index) {
  return "TVL " + std::to_string(index) + " of tenant " + std::to_string(c.tenant.value);
}

Error unknown(TvlId id) { return {"no TVL " + std::to_string(id.value), ENOENT}; }

bool fits(const QuotaPool& pool, const Quota& quota, std::uint32_t asked) {
  const std::uint32_t has = quota.guaranteed.value();
  return asked <= has || asked - has <= pool.unallocated();
}

// The guarantees of dedicated TVLs come on top of the pool, which grows and shrinks with them.
bool may_shrink(const QuotaPool& pool, const Quota& quota, std::uint32_t asked) {
  const std::uint32_t has = quota.guaranteed.value();
  return asked >= has || has - asked <= pool.free();
}
void resize(QuotaPool& pool, Quota& quota, std::uint32_t asked) {
  const std::uint32_t has = quota.guaranteed.value();
  if (asked > has) pool.grow(asked - has);
  pool.set_guarantee(quota, asked);
  if (asked < has) pool.shrink(has - asked);
}

Error over_commit(const std::string& who, const char* what, std::uint32_t asked,
                  const QuotaPool& pool) {
  return {who + ": asked for " + std::to_string(asked) + " " + what + ", " +
              std::to_string(pool.unallocated()) + " of " + std::to_string(pool.total()) +
              " are free to be allocated",
          ENOSPC};
}

}  // namespace

TvlTable::TvlTable(const Config& config)
    : execution_(config.execution_credits),
      completion_(config.completion_credits),
      tvls_(config.max_tvls) {}

Outcome TvlTable::check(const TvlTerms& c, const std::string& who) const {
  if (c.weight == 0) return Error{who + ": weight must be at least 1", EINVAL};
  if (c.max_kick_list == 0) return Error{who + ": kick list must hold at least 1", EINVAL};
  if (!c.may_share && (c.execution_guaranteed == 0 || c.completion_guaranteed == 0))
    return Error{who + ": without own credits and without shared ones nothing can start", EINVAL};
  return {};
}

Expected<TvlId> TvlTable::add(const TvlTerms& c) {
  const auto row = std::find_if(tvls_.begin(), tvls_.end(), [](const Tvl& t) { return !t.used; });
  const std::string who = name(c, static_cast<std::size_t>(row - tvls_.begin()));
  if (row == tvls_.end())
    return Error{who + ": the table holds " + std::to_string(tvls_.size()) + " TVLs", ENOSPC};
  const TvlId id(static_cast<std::uint16_t>(row - tvls_.begin()));
  *row = Tvl{};
  row->used = true;
  row->tenant = c.tenant;
  row->qos_class = c.qos_class;
  row->purpose = c.purpose;
  const Outcome given = change(id, c);
  if (given) return id;
  row->used = false;
  return given.error();
}

Outcome TvlTable::change(TvlId id, const TvlTerms& c) {
  if (!known(id)) return unknown(id);
  const std::string who = name(c, id.value);
  if (auto good = check(c, who); !good) return good;
  Tvl& tvl = tvls_[id.value];
  if (tvl.purpose == TvlPurpose::kDedicated) {
    if (!may_shrink(execution_, tvl.execution, c.execution_guaranteed) ||
        !may_shrink(completion_, tvl.completion, c.completion_guaranteed))
      return Error{who + ": its dedicated credits are in use; try again", EBUSY};
    resize(execution_, tvl.execution, c.execution_guaranteed);
    resize(completion_, tvl.completion, c.completion_guaranteed);
  } else {
    if (!fits(execution_, tvl.execution, c.execution_guaranteed))
      return over_commit(who, "execution credits", c.execution_guaranteed, execution_);
    if (!fits(completion_, tvl.completion, c.completion_guaranteed))
      return over_commit(who, "completion credits", c.completion_guaranteed, completion_);
    execution_.set_guarantee(tvl.execution, c.execution_guaranteed);
    completion_.set_guarantee(tvl.completion, c.completion_guaranteed);
  }
  tvl.closing = false;
  tvl.weight = c.weight;
  tvl.max_kick_list = c.max_kick_list;
  tvl.execution.may_share = tvl.completion.may_share = c.may_share;
  return {};
}

Outcome TvlTable::close(TvlId id) {
  if (!known(id)) return unknown(id);
  Tvl& tvl = tvls_[id.value];
  tvl.closing = true;
  tvl.execution.may_share = tvl.completion.may_share = true;
  // The credits of a dedicated TVL leave the pool with it.
  if (tvl.purpose == TvlPurpose::kDedicated) return {};
  execution_.set_guarantee(tvl.execution, 0);
  completion_.set_guarantee(tvl.completion, 0);
  return {};
}

Outcome TvlTable::remove(TvlId id) {
  if (!known(id)) return unknown(id);
  Tvl& tvl = tvls_[id.value];
  const std::uint32_t execution = tvl.execution.guaranteed.value();
  const std::uint32_t completion = tvl.completion.guaranteed.value();
  const bool dedicated = tvl.purpose == TvlPurpose::kDedicated;
  const bool held = tvl.queue_pairs != 0 || tvl.execution.in_use.value() != 0 ||
                    tvl.completion.in_use.value() != 0;
  // While guarantees given to others are filling, even credits that no TVL holds may be in use.
  const bool lent = dedicated && (execution > execution_.free() || completion > completion_.free());
  if (held || lent)
    return Error{"TVL " + std::to_string(id.value) + " is in use by " +
                     std::to_string(tvl.queue_pairs) + " queue pairs, or its credits are",
                 EBUSY};
  execution_.set_guarantee(tvl.execution, 0);
  completion_.set_guarantee(tvl.completion, 0);
  if (dedicated) {
    execution_.shrink(execution);
    completion_.shrink(completion);
  }
  tvl.used = false;
  return {};
}

bool TvlTable::adjust(TvlId id, bool may_lend, const AdjustmentPolicy& policy, Time now) {
  Tvl& tvl = tvls_[id.value];
  if (!tvl.used || tvl.purpose == TvlPurpose::kDedicated) return false;
  const Lending lending = !may_lend              ? Lending::kNone
                          : tvl.queue_pairs == 0 ? Lending::kAll
                                                 : Lending::kIdle;
  const bool changed =
      tvl.execution_idle.look(execution_, tvl.execution, nullptr, lending, policy, now);
  return tvl.completion_idle.look(completion_, tvl.completion, nullptr, lending, policy, now) ||
         changed;
}

std::optional<TvlId> TvlTable::pick_tvl(QosClassId qos_class, TvlPurpose purpose) const {
  const Tvl* best = nullptr;
  const auto with_one_more = [](const Tvl& tvl, const Tvl& other) {
    return std::uint64_t{tvl.queue_pairs + 1} * other.weight;
  };
  for (const Tvl& tvl : tvls_) {
    if (!tvl.used || tvl.closing || tvl.qos_class != qos_class || tvl.purpose != purpose) continue;
    if (best == nullptr || with_one_more(tvl, *best) < with_one_more(*best, tvl)) best = &tvl;
  }
  if (best == nullptr) return std::nullopt;
  return TvlId(static_cast<std::uint16_t>(best - tvls_.data()));
}

}  // namespace softhca::schedule
