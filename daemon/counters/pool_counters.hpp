// SPDX-License-Identifier: Apache-2.0

// The counters of pools, of what tenants, levels and TVLs have of them, and of doorbells.
#pragma once

#include <algorithm>

#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/counters/counter_table.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/send_queue_scheduler.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::counters {

using collect::CollectGroup;
using collect::PcbPool;
using schedule::DoorbellCounters;
using schedule::SendQueueScheduler;
using schedule::Tvl;
using schedule::TvlCounters;

/// A pool that is divided into guarantees and a shared rest.
struct Pool {
  const QuotaPool* pool = nullptr;
  std::uint32_t own = 0;  ///< part of the daemon itself, beyond what the operator divides
};
inline constexpr Row<Pool> kPool[] = {
    {"softhca_pool_size",
     "Size of the pool.",
     {[](const Pool& of, std::size_t) -> std::uint64_t { return of.pool->total() - of.own; }},
     json("total")},
    {"softhca_pool_in_use", "In use by all tenants.", at<&Pool::pool, &QuotaPool::in_use>},
    {"softhca_pool_high_water", "Most in use at once.", at<&Pool::pool, &QuotaPool::high_water>},
    {"softhca_pool_unallocated", "Guaranteed to no tenant.",
     at<&Pool::pool, &QuotaPool::unallocated>, json("unallocated")},
    {"softhca_pool_lent", "Guaranteed, idle and lent to the shared rest.",
     at<&Pool::pool, &QuotaPool::lent>, json("lent")},
    {"softhca_pool_recalled", "Lent, recalled and not returned yet.",
     at<&Pool::pool, &QuotaPool::recalled>, json("recalled")},
    {"softhca_pool_shared_in_use", "In use beyond the guarantees in force.",
     at<&Pool::pool, &QuotaPool::shared_in_use>},
    {"softhca_pool_overdrawn", "In use beyond the guarantees in force and the shared rest.",
     at<&Pool::pool, &QuotaPool::overdrawn>},
    {nullptr, "", at<&Pool::pool, &QuotaPool::shared_free>, json("shared_free")},
};

/// The account of one kind of things.
struct Account {
  const configuration::Accounts* accounts = nullptr;
  configuration::Kind kind{};
};
template <auto function>
inline constexpr Values<Account> of_kind{
    [](const Account& of, std::size_t) { return (of.accounts->*function)(of.kind); }};

/// The account of the whole adapter.
inline constexpr Row<Account> kTotal[] = {
    {"softhca_pool_size", kSame, of_kind<&configuration::Accounts::limit>, json("total")},
    {"softhca_pool_in_use", kSame, of_kind<&configuration::Accounts::in_use>, json("in_use")},
    {"softhca_pool_high_water", kSame, of_kind<&configuration::Accounts::high_water>},
    {nullptr,
     "",
     {[](const Account& of, std::size_t) {
       const std::uint64_t total = of.accounts->limit(of.kind);
       return total - std::min(total, of.accounts->in_use(of.kind));
     }},
     json("free")},
};
/// The account of a tenant.
inline constexpr Row<Account> kLimit[] = {
    {"softhca_tenant_limit", "Limit of the tenant.", of_kind<&configuration::Accounts::limit>,
     json("limit")},
    {"softhca_tenant_in_use", "In use by the tenant.", of_kind<&configuration::Accounts::in_use>,
     json("in_use")},
    {"softhca_tenant_high_water", "Most in use by the tenant at once.",
     of_kind<&configuration::Accounts::high_water>, json("high_water")},
    {"softhca_tenant_refused_total",
     "Requests refused by the tenant's limit or by the pool's total.",
     of_kind<&configuration::Accounts::refused>, label("by", "tenant", json("refused"))},
    {"softhca_tenant_refused_total", kSame, of_kind<&configuration::Accounts::refused_by_whole>,
     label("by", "adapter", json("refused_by_pool"))},
};

inline constexpr Row<PcbPool> kPcbs[] = {
    {"softhca_dedicated_pcbs", "PCBs reserved for doorbells that find no other PCB.",
     at<&PcbPool::dedicated>},
};
inline constexpr Row<SendQueueScheduler> kDoorbellPlaces[] = {
    {"softhca_doorbell_places", "Queue pairs that may have doorbells in the daemon.",
     at<&SendQueueScheduler::config, &DoorbellConfig::entries>},
    {"softhca_doorbell_places_in_use",
     "Queue pairs with doorbells in the daemon.",
     {[](const SendQueueScheduler& of, std::size_t) -> std::uint64_t { return of.linked(); }}},
    {"softhca_doorbell_places_high_water", "Most queue pairs with doorbells in the daemon at once.",
     at<&SendQueueScheduler::linked_high_water>},
};

/// VCBs or PCBs of a tenant or a level; label "resource" says which.
inline constexpr Row<Quota> kQuota[] = {
    {"softhca_level_guaranteed", "Guaranteed; for level \"\": shared among the tenant's levels.",
     at<&Quota::guaranteed>, json("guaranteed")},
    {"softhca_level_lent", "Guaranteed, idle and lent to the shared rest.", at<&Quota::lent>,
     json("lent")},
    {"softhca_level_in_use", "In use; for level \"\": by levels beyond their guarantees.",
     at<&Quota::in_use>, json("in_use")},
    {"softhca_level_shared_in_use", "In use beyond the guarantee in force.",
     at<&Quota::shared_in_use>, json("shared")},
    {"softhca_level_high_water", "Most in use at once.", at<&Quota::high_water>,
     json("high_water")},
    {"softhca_level_draining", "In use beyond a reduced guarantee, until returned.",
     at<&Quota::draining>, json("draining")},
    {"softhca_level_recalls_total", "Recalls of lent VCBs or PCBs.", at<&Quota::recalls>},
    {"softhca_level_recall_waits_total", "Recalls of lent VCBs or PCBs that found none free.",
     at<&Quota::recall_waits>},
};

/// PCBs of a tenant or a level.
inline constexpr Row<CollectGroup> kGroup[] = {
    {"softhca_level_refused_total", "Requests that found none free.", at<&CollectGroup::refused>,
     label("resource", "pcbs")},
    {"softhca_level_refused_total", kSame, at<&CollectGroup::dedicated_refused>,
     label("resource", "dedicated_pcbs")},
    {"softhca_dedicated_pcbs_limit", "Dedicated PCBs that may be in use at once.",
     at<&CollectGroup::dedicated_limit>},
    {"softhca_dedicated_pcbs_in_use", "Dedicated PCBs in use.",
     at<&CollectGroup::dedicated_in_use>},
    {"softhca_dedicated_pcbs_high_water", "Most dedicated PCBs in use at once.",
     at<&CollectGroup::dedicated_high_water>},
};
inline constexpr Row<Counter> kVcbsRefused[] = {
    {"softhca_level_refused_total", kSame, at<&Counter::value>, label("resource", "vcbs")},
};
/// PCBs of a tenant with its levels.
inline constexpr Row<CollectGroup> kTenantGroup[] = {
    {"softhca_pcbs_in_use", "PCBs in use, except dedicated ones.", at<&CollectGroup::all_in_use>},
    {"softhca_pcbs_high_water", "Most PCBs in use at once.", at<&CollectGroup::all_high_water>},
};

/// Doorbells of a tenant or a level.
inline constexpr Row<DoorbellCounters> kDoorbells[] = {
    {"softhca_doorbells_accepted_total",
     "Doorbells that the send queue scheduler accepted, from programs or made from VCB commands.",
     at<&DoorbellCounters::accepted>},
    {"softhca_doorbells_stale_total", "Doorbells for commands that were already fetched.",
     at<&DoorbellCounters::stale>},
    {"softhca_doorbells_hostile_total", "Doorbells that name commands beyond the send queue.",
     at<&DoorbellCounters::hostile>},
    {"softhca_doorbells_pruned_total", "Doorbells moved to the doorbell overflow buffer.",
     at<&DoorbellCounters::pruned>},
    {"softhca_doorbells_joined_total",
     "Doorbells added to one that was in the overflow buffer already.",
     at<&DoorbellCounters::joined>},
    {"softhca_doorbells_recovered_total",
     "Doorbells read back from the overflow buffer, each with those added to it.",
     at<&DoorbellCounters::recovered>},
    {"softhca_doorbells_lost_total", "Doorbells that the program overwrote in the overflow buffer.",
     at<&DoorbellCounters::lost>},
    {"softhca_doorbells_dropped_total",
     "Doorbells in the overflow buffer when their queue pair ended.",
     at<&DoorbellCounters::dropped>},
    {"softhca_doorbell_overflow_in_use", "Queue pairs with a doorbell in the overflow buffer.",
     at<&DoorbellCounters::overflow>},
    {"softhca_doorbell_overflow_high_water",
     "Most queue pairs with a doorbell in the overflow buffer at once.",
     at<&DoorbellCounters::overflow_high_water>},
};

/// Credits of a TVL; label "kind" says which.
inline constexpr Row<Quota> kCredits[] = {
    {"softhca_credits_guaranteed", "Credits that the TVL is guaranteed.", at<&Quota::guaranteed>},
    {"softhca_credits_lent", "Guaranteed, idle and lent to the shared rest.", at<&Quota::lent>},
    {"softhca_credits_in_use", "Credits in use.", at<&Quota::in_use>},
    {"softhca_credits_shared_in_use", "In use beyond the guarantee in force.",
     at<&Quota::shared_in_use>},
    {"softhca_credits_high_water", "Most credits in use at once.", at<&Quota::high_water>},
    {"softhca_credits_draining", "In use beyond a reduced guarantee, until returned.",
     at<&Quota::draining>},
    {"softhca_credits_recalls_total", "Recalls of lent credits.", at<&Quota::recalls>},
    {"softhca_credits_recall_waits_total", "Recalls of lent credits that found none free.",
     at<&Quota::recall_waits>},
};
inline constexpr Row<Tvl> kTvl[] = {
    {"softhca_kick_list_limit", "Commands the virtual kick list may hold.",
     at<&Tvl::max_kick_list>},
    {nullptr, "", at<&Tvl::execution, &Quota::in_use>, json("execution_credits")},
    {nullptr, "", at<&Tvl::completion, &Quota::in_use>, json("completion_credits")},
};
inline constexpr Row<TvlCounters> kKicks[] = {
    {"softhca_credit_waits_total", "Turns of the TVL that found no free credit.",
     at<&TvlCounters::execution_waits>, label("kind", "execution", json("execution_waits"))},
    {"softhca_credit_waits_total", kSame, at<&TvlCounters::completion_waits>,
     label("kind", "completion", json("completion_waits"))},
    {"softhca_kick_list_waiting", "Commands in the virtual kick list.", at<&TvlCounters::waiting>,
     json("kick_list")},
    {"softhca_kick_list_high_water", "Most commands in the virtual kick list at once.",
     at<&TvlCounters::waiting_high_water>},
    {"softhca_kick_list_refused_total", "Commands that found the virtual kick list full.",
     at<&TvlCounters::refused>, json("kicks_refused")},
    {"softhca_commands_started_total", "Commands started by the arbitrator.",
     at<&TvlCounters::started>, json("started")},
};

}  // namespace softhca::counters
