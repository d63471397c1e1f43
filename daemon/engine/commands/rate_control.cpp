// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/rate_control.hpp"

#include "daemon/engine/commands/command_request.hpp"
#include "daemon/engine/records/session.hpp"

namespace softhca::engine {

void RateControl::forget(RateGate& gate) {
  gates_.forget(gate, [](std::uint32_t) {});
  while (gate.classes.pop_front(classes_.data()) != kNoIndex) continue;
}

RateGate* RateControl::closed_gate(const QueuePair& qp) {
  if (qp.state == QpState::kError) return nullptr;
  if (Level* level = level_of(qp); level != nullptr && level->rate.closed()) return &level->rate;
  return qp.sq.rates != nullptr && qp.sq.rates->sent.closed() ? &qp.sq.rates->sent : nullptr;
}

/// Visits the gates that apply to commands of the queue pair.
template <class Visit>
void RateControl::for_each_gate(const QueuePair& qp, Visit&& visit) {
  visit(qp.tenant->rate);
  if (Level* level = level_of(qp)) visit(level->rate);
  if (qp.sq.rates != nullptr) visit(qp.sq.rates->sent);
}

void RateControl::charge(const QueuePair& qp, const collect::Pcb& command,
                         CommandContext& context) {
  if (qp.state == QpState::kError || !is_message(command.header)) return;
  context.charged = true;
  context.charged_bytes = declared_bytes(command);
  for_each_gate(qp, [&](RateGate& gate) { gates_.charge(gate, context.charged_bytes, 1); });
}

void RateControl::take_back(const QueuePair& qp, const CommandContext& context) {
  if (!context.charged) return;
  for_each_gate(qp, [&](RateGate& gate) { gate.limiter.refund(context.charged_bytes); });
}

RateControl::Hold RateControl::hold_closed(const QueuePair& qp) {
  Level* level = level_of(qp);
  RateGate* of_class = qp.tenant->rate.closed() ? &qp.tenant->rate : nullptr;
  if (of_class == nullptr && level != nullptr && level->rate.closed()) of_class = &level->rate;
  if (of_class != nullptr) {
    if (!classes_[qp.qos_class.value].link.linked())
      of_class->classes.push_back(classes_.data(), qp.qos_class.value);
    return Hold::kClass;
  }
  RateGate* of_queue_pair = closed_gate(qp);
  if (of_queue_pair == nullptr) return Hold::kNone;
  gates_.wait(qp.slot, *of_queue_pair);
  return Hold::kQueuePair;
}

}  // namespace softhca::engine
