// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/turns/cpu_scheduler.hpp"

#include <algorithm>

#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

// Tenants that have competed are expected to go on for a while. That time grows each time they
// compete, up to longer than a process waits for a processor on a busy machine. So a tenant that
// asks for a little now and then does not make the others work in small portions all the time.
constexpr Duration kExpectedOfOne = std::chrono::milliseconds(1);
constexpr Duration kExpectedOfMany = std::chrono::milliseconds(50);

// Work that takes this many times its counted cost is expensive. A machine may be half as fast as
// the one that the costs come from, and caches may be cold.
constexpr std::uint64_t kDear = 4;

void expect_more(Time& until, Time now) {
  until = std::min(std::max(until, now) + kExpectedOfOne, now + kExpectedOfMany);
}

}  // namespace

CpuScheduler::CpuScheduler(const StepClock& clock, std::uint32_t queue_pairs, std::uint16_t tenants,
                           std::uint16_t classes, std::uint16_t tvls)
    : clock_(clock), minimums_(tenants, classes, queue_pairs) {
  ready_.reserve(queue_pairs, tenants, classes, tvls);
  ready_.heed(minimums_, true);
  charges_.resize(classes);
  charged_classes_.reserve(classes);
}

void CpuScheduler::measure_by(WorkClock* clock) {
  end_step();
  work_clock_ = clock;
  measures_each_ = false;
}

void CpuScheduler::charge(Tenant& tenant, QosClassId qos_class, std::uint64_t cost, bool first) {
  done_ += cost;
  turn_began_ += cost;
  if (work_clock_ != nullptr)
    return note(tenant, qos_class, first ? &Charges::first : &Charges::work, cost);
  if (first)
    minimums_.add_first_cost(tenant.id, cost);
  else
    charge_turns(qos_class, cost);
  tenant.counters.engine_time.add(cost);
}

void CpuScheduler::charge_packet(Tenant& tenant, QosClassId qos_class, std::size_t payload) {
  const std::uint64_t cost = packet_cost(payload);
  done_ += cost;
  turn_began_ += cost;
  if (work_clock_ != nullptr) return note(tenant, qos_class, &Charges::packets, cost);
  charge_packets(qos_class, cost);
  tenant.counters.engine_time.add(cost);
}

void CpuScheduler::charge_packets(QosClassId qos_class, std::uint64_t cost) {
  if (ready_.may_begin(qos_class, kReceiveDebt)) ready_.charge(qos_class, cost);
}

/// Returns the time since the clock was last read, for work that counts as `counted`.
std::uint64_t CpuScheduler::measure(std::uint64_t counted) {
  const std::uint64_t taken = work_clock_->lap();
  if (taken > kDear * counted) done_ += taken / kDear - counted;
  spent_ += taken;
  measured_ = done_;
  return taken;
}

/// Divides the time since the clock was last read among the work done since. The rest of that work
/// is a turn that counts as `own`. Returns the time of the turn.
std::uint64_t CpuScheduler::divide(std::uint64_t own) {
  const std::uint64_t counted = charged_ + own, taken = measure(counted);
  if (charged_ == 0) return taken;
  const double rate = static_cast<double>(taken) / static_cast<double>(counted);
  const auto time = [&](std::uint64_t cost) {
    return cost == counted ? taken : static_cast<std::uint64_t>(rate * static_cast<double>(cost));
  };
  std::uint64_t divided = 0;
  for (const QosClassId qos_class : charged_classes_) {
    Charges& charges = charges_[qos_class.value];
    const std::uint64_t all = time(charges.work + charges.first + charges.packets + charges.turns);
    charges.tenant->counters.engine_time.add(all);
    divided += all;
    if (charges.work != 0) charge_turns(qos_class, time(charges.work));
    if (charges.first != 0) minimums_.add_first_cost(charges.tenant->id, time(charges.first));
    if (charges.packets != 0) charge_packets(qos_class, time(charges.packets));
    charges = {};
  }
  charged_classes_.clear();
  charged_ = 0;
  return taken - std::min(taken, divided);
}

void CpuScheduler::fail_later(QueuePair& qp, QpFailure cause) {
  if (qp.error.cause == QpFailure::kNone) qp.error.cause = cause;
  qp.error.pending = true;
  qp.record.durable->cause = static_cast<std::uint8_t>(qp.error.cause);
  qp.record.durable->is_failing = 1;
  make_ready(qp);
}

std::optional<std::uint32_t> CpuScheduler::begin() {
  const auto slot = ready_.pop();
  if (slot) begin_work(ready_.class_of(*slot));
  turn_began_ = done_;
  moved_ = 0;
  if (slot) done_ += kRunCost;
  return slot;
}

/// Ends a turn. The minimum rates count what it moved first, since they decide where the queue pair
/// stands next.
void CpuScheduler::end_turn(const QueuePair& qp, std::uint64_t cost, bool more) {
  if (!minimums_.any()) return ready_.served(qp.slot, cost, more);
  const schedule::MinimumRates::First& first = ready_.went_first();
  minimums_.turn_over(qp.qos_class, qp.slot, moved_, cost, first);
  if (first.tenant) qp.tenant->rate.minimum_bytes.add(moved_);
  Level* const level = first.qos_class ? level_of(qp) : nullptr;
  if (level != nullptr) level->rate.minimum_bytes.add(moved_);
  ready_.served(qp.slot, cost, more, moved_ == 0);
}

void CpuScheduler::finished(const QueuePair& qp, bool more) {
  const std::uint64_t cost = done_ - turn_began_;
  if (!measures_each_ || !ready_.contended(qp.qos_class)) {
    end_turn(qp, cost, more);
    if (work_clock_ != nullptr) return note(*qp.tenant, qp.qos_class, &Charges::turns, cost);
    return qp.tenant->counters.engine_time.add(cost);
  }
  const std::uint64_t time = divide(cost);
  end_turn(qp, time, more);
  qp.tenant->counters.engine_time.add(time);
}

void CpuScheduler::choose_budget() {
  budget_ = clock_.now < sparse_until_      ? &kSparse
            : clock_.now < contended_until_ ? &kContended
                                            : &kAlone;
  const bool each = work_clock_ != nullptr && budget_ != &kAlone;
  if (each == measures_each_) return;
  end_step();
  measures_each_ = each;
}

bool CpuScheduler::note_competition(QosClassId qos_class, const schedule::RunQueue& order,
                                    bool left_much) {
  if (!order.contended(qos_class)) return false;
  expect_more(contended_until_, clock_.now);
  if (order.overtaken() && !left_much) expect_more(sparse_until_, clock_.now);
  return true;
}

}  // namespace softhca::engine
