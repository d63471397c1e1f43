// Driving the transport state machines: queue pairs with work, packets for them, their timers.
#include <algorithm>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/local_link.hpp"
#include "daemon/engine/peer_address.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kRunsPerStep = 64;  ///< queue pairs served in one poll step

bool not_ready(const QueuePair& qp) {
  return std::visit([](const auto& transport) { return transport.receiver_not_ready(); },
                    qp.transport);
}

template <class... Case>
struct Cases : Case... {
  using Case::operator()...;
};
template <class... Case>
Cases(Case...) -> Cases<Case...>;

}  // namespace

std::size_t Engine::run_ready() {
  const std::uint64_t end = cpu_.done() + cpu_.budget().runs;
  std::size_t runs = 0;
  for (; runs < kRunsPerStep && cpu_.done() < end; ++runs) {
    const auto slot = cpu_.begin();
    if (!slot) break;
    QueuePair& qp = queue_pairs_[*slot];
    cpu_.note_competition(qp.qos_class, cpu_.order(), scheduler_.has_work(qp.qos_class));
    cpu_.finished(qp, run(qp));
    if (ingress_.commands_wait(qp.qos_class)) break;
  }
  return runs;
}

/// True when it could go on right away.
bool Engine::run(QueuePair& qp) {
  if (qp.error_pending) {
    enter_error(qp);
    return false;
  }
  if (qp.state == QpState::kError) return flush_receives(qp);
  qp.flow.resume();
  const bool more = transmit(qp);
  if (qp.stalled && !not_ready(qp)) resume(qp);
  settle(qp);
  return more && may_receive(qp.state) && qp.flow.wake_at() == kNever;
}

bool Engine::transmit(QueuePair& qp) {
  QpEnvironment env(parts_, qp);
  const Budget& budget = cpu_.budget();
  return std::visit(
      Cases{[&](transport::Ud& ud) { return transmit_datagrams(qp, ud); },
            [&](transport::Local& local) {
              QpLocalLink link(parts_, qp);
              return local.transmit(link, env, clock_.now, budget.bytes);
            },
            [&](auto& wire) { return wire.transmit(env, clock_.now, budget.packets); }},
      qp.transport);
}

/// After every call into a state machine: errors take effect, the timer follows the deadline.
void Engine::settle(QueuePair& qp) {
  if (qp.error_pending) enter_error(qp);
  if (qp.state == QpState::kError) return;
  if (!qp.stalled && not_ready(qp)) stall(qp);
  const Time deadline =
      std::visit([](const auto& transport) { return transport.deadline(); }, qp.transport);
  timers_.arm(TimerId(qp.slot), std::min(deadline, qp.flow.wake_at()));
}

void Engine::expire(QueuePair& qp) {
  if (qp.state != QpState::kError) {
    if (std::holds_alternative<transport::Rc>(qp.transport)) try_other_source(qp);
    QpEnvironment env(parts_, qp);
    std::visit([&](auto& transport) { transport.expire(env, clock_.now); }, qp.transport);
    settle(qp);
  }
  cpu_.make_ready(qp);
}

void Engine::receive_packet(QueuePair& qp, const wire::ParsedFrame& frame) {
  QpEnvironment env(parts_, qp, qp.route, &frame);
  qp.tenant->counters.count_received(frame);
  cpu_.charge_packet(qp, frame.payload.size());
  if (!may_receive(qp.state)) {
    env.count(transport::Count::kBadState);
  } else if (std::visit(
                 [&](auto& transport) {
                   return transport.receive(env, frame.headers, frame.payload, clock_.now);
                 },
                 qp.transport)) {
    cpu_.make_ready(qp);
  }
  settle(qp);
}

}  // namespace softhca::engine
