// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/guarantee_monitor.hpp"

#include <algorithm>

#include "daemon/engine/records/costs.hpp"
#include "daemon/engine/records/session.hpp"

namespace softhca::engine {
namespace {

// A shorter lack is the time that a borrower takes to finish what it has begun.
constexpr Duration kNoticed = std::chrono::milliseconds(10);
// A class that was not checked for this time may have had its guarantee meanwhile.
constexpr Duration kForgotten = std::chrono::milliseconds(100);
constexpr Duration kBetweenEvents = std::chrono::seconds(10);

// Shares of the engine's time are measured over this interval.
constexpr Duration kInterval = std::chrono::seconds(1);
// A tenant wants the engine all the time if nearly all of enough samples find it waiting for it.
constexpr std::uint32_t kEnoughLooks = 200;
constexpr double kNearlyAll = 0.98;
// Less than this part of its share is too little: turns are divided only as finely as the work is.
constexpr double kTooLittle = 0.75;

std::uint32_t milliseconds(Duration duration) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

void count(const QueuePair& qp, Guarantee what, Duration time) {
  waits_of(qp).not_kept[static_cast<std::size_t>(what)].add(
      static_cast<std::uint64_t>(time.count()));
}

}  // namespace

void GuaranteeMonitor::waits_for_pcb(const QueuePair& qp) {
  note(
      qp, Guarantee::kPcbs, pcbs_.group(qp.qos_class).pcbs, pcbs_.quota(),
      "waits for guaranteed PCBs that are lent to others; set tenant.lends = false to prevent this",
      "waits for guaranteed PCBs that others held when the guarantee was set; they return when "
      "the others' commands end");
}

void GuaranteeMonitor::waits_for_credits(const QueuePair& qp) {
  const schedule::Tvl& tvl = tvls_[qp.sq.tvl];
  note(
      qp, Guarantee::kExecutionCredits, tvl.execution, tvls_.execution_pool(),
      "waits for guaranteed execution credits that are lent to others; set tenant.lends = false to "
      "prevent this",
      "waits for guaranteed execution credits that others held when the guarantee was set; they "
      "return when the others' commands end");
  note(qp, Guarantee::kCompletionCredits, tvl.completion, tvls_.completion_pool(),
       "waits for guaranteed completion credits that are lent to others; set tenant.lends = false "
       "to "
       "prevent this",
       "waits for guaranteed completion credits that others held when the guarantee was set; they "
       "return when the others' commands end");
}

/// Notes that the queue pair waits for what `quota` has of `pool`. It lacks its guarantee if it has
/// recalled what it lent and that is not back, or if it is below its guarantee and the pool has
/// none free. The event gives the reason: `lent` in the first case, else `overdrawn`.
void GuaranteeMonitor::note(const QueuePair& qp, Guarantee what, const Quota& quota,
                            const QuotaPool& pool, const char* lent, const char* overdrawn) {
  Lack& lack = classes_[qp.qos_class.value][static_cast<std::size_t>(what)];
  if (!quota.recalling && !(quota.below_guarantee() && pool.free() == 0)) {
    lack.since = kNever;
    return;
  }
  if (lack.since == kNever || clock_.now - lack.seen > kForgotten)
    lack.since = clock_.now;
  else
    count(qp, what, clock_.now - lack.seen);
  lack.seen = clock_.now;
  const Duration lasts = clock_.now - lack.since;
  if (lasts < kNoticed || clock_.now < lack.next_event) return;
  lack.next_event = clock_.now + kBetweenEvents;
  DaemonEvent event = event_of(DaemonEventKind::kGuaranteeNotKept, *qp.session, qp.qpn,
                               quota.recalling ? lent : overdrawn);
  event.amount = milliseconds(lasts);
  log_.add(event);
}

void GuaranteeMonitor::forget(const Tenant& tenant) {
  engine_[tenant.id.value] = {};
  classes_[tenant.qos_class.value] = {};
}

/// Checks at the end of an interval whether each tenant that wanted the engine all the time had its
/// share.
void GuaranteeMonitor::begin_census() {
  if (clock_.now - interval_began_ < kInterval) return;
  if (clock_.now - interval_began_ < 2 * kInterval) divide_engine();
  begin_interval();
}

/// Returns the engine time that the tenant has had by its weight. Minimum rates go before shares.
std::int64_t GuaranteeMonitor::time_by_weight(const Tenant& tenant) const {
  return static_cast<std::int64_t>(tenant.counters.engine_time.value() -
                                   order_.first_cost(tenant.id));
}

void GuaranteeMonitor::begin_interval() {
  interval_began_ = clock_.now;
  for (const Tenant* tenant : addresses_.tenants()) {
    EngineShare& share = engine_[tenant->id.value];
    share.time_before = time_by_weight(*tenant);
    share.waiting = share.others = 0;
  }
}

void GuaranteeMonitor::divide_engine() {
  const auto had = [&](const Tenant& tenant) {
    const std::int64_t time = time_by_weight(tenant) - engine_[tenant.id.value].time_before;
    return static_cast<double>(std::max<std::int64_t>(time, 0));
  };
  double all = 0, weights = 0;
  for (const Tenant* tenant : addresses_.tenants()) {
    const double time = had(*tenant);
    all += time;
    if (time != 0) weights += order_.tenant_weight(tenant->id);
  }
  for (Tenant* tenant : addresses_.tenants()) {
    EngineShare& share = engine_[tenant->id.value];
    if (share.waiting < kEnoughLooks || share.waiting < kNearlyAll * (share.waiting + share.others))
      continue;
    const double due = all * order_.tenant_weight(tenant->id) / weights;
    const double lacks = due - had(*tenant);
    if (lacks <= (1 - kTooLittle) * due) continue;
    tenant->counters.waits.not_kept[static_cast<std::size_t>(Guarantee::kEngineTime)].add(
        static_cast<std::uint64_t>(lacks) / kUnitsPerNanosecond);
    if (clock_.now < share.next_event) continue;
    share.next_event = clock_.now + kBetweenEvents;
    log_.add({.kind = DaemonEventKind::kGuaranteeNotKept,
              .tenant = tenant->id,
              .amount = milliseconds(clock_.now - interval_began_),
              .cause = "had less than three quarters of its share of the engine's time; packets "
                       "and control requests of other tenants took the rest"});
  }
}

}  // namespace softhca::engine
