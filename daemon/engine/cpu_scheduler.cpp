#include "daemon/engine/cpu_scheduler.hpp"

#include <algorithm>

#include "daemon/engine/costs.hpp"

namespace softhca::engine {
namespace {

// Tenants that have competed are expected to go on for a while, which grows with each time they do
// up to longer than a process waits for a processor on a machine that is busy. So one that asks for
// a little now and then does not have the others work in small portions all the time.
constexpr Duration kExpectedOfOne = std::chrono::milliseconds(1);
constexpr Duration kExpectedOfMany = std::chrono::milliseconds(50);

void expect_more(Time& until, Time now) {
  until = std::min(std::max(until, now) + kExpectedOfOne, now + kExpectedOfMany);
}

}  // namespace

CpuScheduler::CpuScheduler(const StepClock& clock, std::uint32_t queue_pairs, std::uint16_t tenants,
                           std::uint16_t classes)
    : clock_(clock) {
  ready_.reserve(queue_pairs, tenants, classes);
}

void CpuScheduler::charge(const Session& session, std::uint64_t cost) {
  done_ += cost;
  ready_.charge(session.qos_class, cost);
  session.tenant->counters.engine_cost.add(cost);
}

void CpuScheduler::charge_packet(const QueuePair& qp, std::size_t payload) {
  const std::uint64_t cost = packet_cost(payload);
  done_ += cost;
  qp.tenant->counters.engine_cost.add(cost);
  if (ready_.may_begin(qp.qos_class, kReceiveDebt)) ready_.charge(qp.qos_class, cost);
}

void CpuScheduler::fail_later(QueuePair& qp, const char* cause) {
  if (qp.error.cause == nullptr) qp.error.cause = cause;
  qp.error.pending = true;
  make_ready(qp);
}

std::optional<std::uint32_t> CpuScheduler::begin() {
  const auto slot = ready_.pop();
  turn_began_ = done_;
  if (slot) done_ += kRunCost;
  return slot;
}

void CpuScheduler::finished(const QueuePair& qp, bool more) {
  const std::uint64_t cost = done_ - turn_began_;
  ready_.served(qp.slot, cost, more);
  qp.tenant->counters.engine_cost.add(cost);
}

void CpuScheduler::choose_budget() {
  budget_ = clock_.now < sparse_until_      ? &kSparse
            : clock_.now < contended_until_ ? &kContended
                                            : &kAlone;
}

bool CpuScheduler::note_competition(QosClassId qos_class, const schedule::RunQueue& order,
                                    bool left_much) {
  if (!order.contended(qos_class)) return false;
  expect_more(contended_until_, clock_.now);
  if (order.overtaken() && !left_much) expect_more(sparse_until_, clock_.now);
  return true;
}

}  // namespace softhca::engine
