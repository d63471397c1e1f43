// Driving the transport state machines: queue pairs with work, packets for them, their timers.
#include <algorithm>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/peer_address.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kRunsPerStep = 64;  ///< queue pairs served in one poll step
constexpr std::size_t kDatagramsPerRun = 32;

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
  QpEnvironment env(parts_, qp);
  bool more = false;
  if (qp.type == QpType::kUd) {
    more = run_datagrams(qp);
  } else if (qp.local) {
    more = run_local(qp);
  } else if (qp.type == QpType::kUc) {
    more = qp.uc_requester.transmit(env, cpu_.budget().packets);
  } else {
    more = qp.responder.transmit(env, cpu_.budget().packets);
    // A requester in RTR has nothing, and one in the error state is silent.
    more |= qp.requester.transmit(env, clock_.now, cpu_.budget().packets);
    if (qp.stalled && !qp.requester.receiver_not_ready()) resume(qp);
  }
  settle(qp);
  return more && may_receive(qp.state) && qp.flow.wake_at() == kNever;
}

/// After every call into a state machine: errors take effect, the timer follows the deadline.
void Engine::settle(QueuePair& qp) {
  if (qp.error_pending) enter_error(qp);
  if (qp.local || qp.state == QpState::kError) return;
  if (!qp.stalled && qp.requester.receiver_not_ready()) stall(qp);
  if (is_reliable(qp.type))
    timers_.arm(TimerId(qp.slot), std::min(qp.requester.deadline(), qp.flow.wake_at()));
  else if (qp.flow.limited())
    timers_.arm(TimerId(qp.slot), qp.flow.wake_at());
}

void Engine::expire(QueuePair& qp) {
  if (is_reliable(qp.type) && !qp.local && qp.state != QpState::kError) {
    try_other_source(qp);
    QpEnvironment env(parts_, qp);
    qp.requester.expire(env, clock_.now);
    settle(qp);
  }
  cpu_.make_ready(qp);
}

void Engine::receive_packet(QueuePair& qp, const wire::ParsedFrame& frame) {
  QpEnvironment env(parts_, qp, qp.route, &frame);
  qp.tenant->counters.count_received(frame);
  cpu_.charge_packet(qp, frame.payload.size());
  if (!may_receive(qp.state)) {
    env.count(transport::Count::kBadState, 1);
  } else if (is_reliable(qp.type)) {
    const auto mask = wire::opcode_info(frame.headers.opcode).mask;
    if (mask.has_any(wire::kResponse)) {
      qp.requester.receive(env, frame.headers, frame.payload, clock_.now);
    } else if (!is_responder(qp.type)) {
      env.count(transport::Count::kBadOpcode, 1);
    } else {
      qp.responder.receive(env, frame.headers, frame.payload, clock_.now);
    }
    cpu_.make_ready(qp);
  } else if (qp.type == QpType::kUc) {
    qp.uc_responder.receive(env, frame.headers, frame.payload);
  } else {
    qp.ud_responder.receive(env, frame.headers, frame.payload);
  }
  settle(qp);
}

bool Engine::run_datagrams(QueuePair& qp) {
  const std::uint64_t end = cpu_.done() + cpu_.budget().runs;
  for (std::size_t i = 0; i < kDatagramsPerRun && cpu_.done() < end; ++i) {
    if (qp.queue.empty() || (qp.state != QpState::kRts && qp.state != QpState::kSqd)) return false;
    const transport::Request request = qp.queue.front();
    qp.queue.pop();
    if (!run_datagram(qp, request)) {
      qp.queue.push_front(request.pcb);
      return true;
    }
    if (qp.error_pending) return false;
  }
  return true;
}

/// False: the port is full or the neighbour is being looked for; nothing happened.
bool Engine::run_datagram(QueuePair& qp, const transport::Request& request) {
  const abi::CommandHeader& header = pcbs_.pcb(request.pcb).header;
  AddressHandle* ah = address_handles_.find(header.address_handle);
  if (ah == nullptr || ah->session != qp.session || ah->pd != qp.pd) {
    complete_command(qp, request.pcb, Verdict::kLocalQpOperation);
    cpu_.fail_later(qp, name_of(Verdict::kLocalQpOperation));
    return true;
  }
  // A Q_Key with the high bit set stands for that of the queue pair (IBA 10.2.5).
  const std::uint32_t qkey = (header.remote_qkey & 0x80000000) != 0 ? qp.qkey : header.remote_qkey;
  if (Qpn(header.remote_qpn) == kMulticastQpn && ah->route.path.destination.is_multicast())
    return run_multicast(qp, request, *ah, qkey);
  if (addresses_.is_local(ah->route.path.destination)) {
    deliver_datagram(qp, request, ah->route.path, qkey);
    return true;
  }
  QpEnvironment env(parts_, qp, ah->route);
  return qp.ud_requester.transmit(env, request, Qpn(header.remote_qpn), qkey) != Verdict::kBusy;
}

}  // namespace softhca::engine
