#include "daemon/engine/rate_control.hpp"

#include <algorithm>

#include "daemon/engine/command_request.hpp"
#include "daemon/engine/session.hpp"

namespace softhca::engine {

void RateControl::set(RateGate& gate, const RateLimits& limits) {
  const bool before = gate.limiter.limited();
  if (gate.closed()) wait_no_more(gate);
  gate.limiter.set({limits.bytes_per_second, limits.burst_bytes},
                   {limits.messages_per_second, limits.burst_messages}, clock_.now);
  limited_ += gate.limiter.limited();
  limited_ -= before;
  due_.reserve(limited_ + 1);
  if (gate.closed()) wait_until_ready(gate);
}

void RateControl::forget(RateGate& gate) {
  set(gate, {});
  if (gate.closed()) wait_no_more(gate);
  while (gate.classes.pop_front(classes_.data()) != kNoIndex) continue;
  while (gate.queue_pairs.pop_front(queue_pairs_.data()) != kNoIndex) continue;
  passing_.remove(gate);
}

RateGate* RateControl::closed_gate(const QueuePair& qp) {
  if (qp.state == QpState::kError) return nullptr;
  if (qp.sq.rate != nullptr && qp.sq.rate->closed()) return qp.sq.rate.get();
  RateGate& of_tvl = tvls_[qp.sq.tvl.value];
  return of_tvl.closed() ? &of_tvl : nullptr;
}

/// The gates that a command of the queue pair goes through.
template <class Visit>
void RateControl::for_each_gate(const QueuePair& qp, Visit&& visit) {
  visit(qp.tenant->rate);
  if (Level* level = qp.session->level) visit(level->rate);
  visit(tvls_[qp.sq.tvl.value]);
  if (qp.sq.rate != nullptr) visit(*qp.sq.rate);
}

void RateControl::charge(const QueuePair& qp, const collect::Pcb& command,
                         CommandContext& context) {
  if (qp.state == QpState::kError || !is_message(command.header)) return;
  context.charged = true;
  context.charged_bytes = declared_bytes(command);
  for_each_gate(qp, [&](RateGate& gate) {
    if (!gate.limiter.limited()) return;
    gate.limiter.charge(context.charged_bytes, clock_.now);
    if (!gate.closed() && gate.limiter.ready_at() > clock_.now) close(gate);
  });
}

void RateControl::take_back(const QueuePair& qp, const CommandContext& context) {
  if (!context.charged) return;
  for_each_gate(qp, [&](RateGate& gate) { gate.limiter.refund(context.charged_bytes); });
}

RateControl::Hold RateControl::hold(const QueuePair& qp) {
  if (limited_ == 0 || qp.state == QpState::kError) return Hold::kNone;
  Level* level = qp.session->level;
  RateGate* of_class = qp.tenant->rate.closed() ? &qp.tenant->rate : nullptr;
  if (of_class == nullptr && level != nullptr && level->rate.closed()) of_class = &level->rate;
  if (of_class != nullptr) {
    if (!classes_[qp.qos_class.value].link.linked())
      of_class->classes.push_back(classes_.data(), qp.qos_class.value);
    return Hold::kClass;
  }
  RateGate* of_queue_pair = closed_gate(qp);
  if (of_queue_pair == nullptr) return Hold::kNone;
  RateWaiter& waiter = queue_pairs_[qp.slot];
  if (!waiter.link.linked()) {
    waiter.gate = of_queue_pair;
    of_queue_pair->queue_pairs.push_back(queue_pairs_.data(), qp.slot);
  }
  return Hold::kQueuePair;
}

void RateControl::leave(const QueuePair& qp) {
  const RateWaiter& waiter = queue_pairs_[qp.slot];
  if (!waiter.link.linked()) return;
  waiter.gate->queue_pairs.remove(queue_pairs_.data(), qp.slot);
  if (waiter.gate->queue_pairs.empty()) passing_.remove(*waiter.gate);
}

void RateControl::close(RateGate& gate) {
  gate.closed_since = clock_.now;
  gate.held.set(1);
  passing_.remove(gate);
  wait_until_ready(gate);
}

void RateControl::wait_until_ready(RateGate& gate) {
  due_.push_back({gate.limiter.ready_at(), &gate});
  std::push_heap(due_.begin(), due_.end());
}

void RateControl::wait_no_more(RateGate& gate) {
  std::erase_if(due_, [&](const Due& due) { return due.gate == &gate; });
  std::make_heap(due_.begin(), due_.end());
}

void RateControl::open(RateGate& gate) {
  gate.held_ns.add(static_cast<std::uint64_t>((clock_.now - gate.closed_since).count()));
  gate.closed_since = kNever;
  gate.held.set(0);
  for (std::uint32_t i; (i = gate.classes.pop_front(classes_.data())) != kNoIndex;)
    free_classes_.push_back(classes_.data(), i);
  if (!gate.queue_pairs.empty()) passing_.push_back(gate);
}

void RateControl::open_due() {
  while (!due_.empty() && due_.front().at <= clock_.now) {
    RateGate& gate = *due_.front().gate;
    std::pop_heap(due_.begin(), due_.end());
    due_.pop_back();
    if (gate.limiter.ready_at() <= clock_.now)
      open(gate);
    else
      wait_until_ready(gate);
  }
}

}  // namespace softhca::engine
