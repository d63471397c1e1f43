// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/transport_driver.hpp"

#include <algorithm>
#include <optional>

#include "daemon/engine/addresses/peer_address.hpp"
#include "daemon/engine/queue_pairs/captured_link.hpp"
#include "daemon/engine/queue_pairs/faulty_link.hpp"
#include "daemon/engine/queue_pairs/local_link.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kRunsPerStep = 64;  ///< most queue pairs served in one poll step
constexpr unsigned kWaitingPacketsPerTurn = 32;

bool is_held(const QueuePair& qp) {
  return std::visit([](const auto& transport) { return transport.is_held(); }, qp.transport);
}

bool brings_what_was_read(const wire::Headers& headers) {
  const wire::OpcodeMask& mask = wire::opcode_info(headers.opcode).mask;
  return mask.has_all(wire::kResponse) && mask.has_any(wire::kRead | wire::kAtomic);
}

template <class... Case>
struct Cases : Case... {
  using Case::operator()...;
};
template <class... Case>
Cases(Case...) -> Cases<Case...>;

}  // namespace

std::size_t TransportDriver::run_ready() {
  const std::uint64_t end = parts_.cpu.done() + parts_.cpu.budget().runs;
  std::size_t runs = 0;
  while (runs < kRunsPerStep && parts_.cpu.done() < end) {
    const auto slot = parts_.cpu.begin();
    if (!slot) break;
    ++runs;
    QueuePair& qp = parts_.queue_pairs[*slot];
    clock_.work_on(subject_of(qp));
    parts_.cpu.note_competition(qp.qos_class, parts_.cpu.order(),
                                parts_.commands.has_more(qp.qos_class));
    parts_.cpu.finished(qp, run(qp));
    if (intake_.commands_wait(qp.qos_class)) break;
  }
  return runs;
}

/// Runs the queue pair for one turn. True: it has more work that can continue at once.
bool TransportDriver::run(QueuePair& qp) {
  if (qp.error.pending) {
    lifecycle_.enter_error(qp);
    return false;
  }
  if (qp.state == QpState::kError) return lifecycle_.flush_receives(qp);
  if (waits_for_memory(qp)) {
    parts_.memory_waits.end_turn(qp.slot);
    return false;
  }
  const bool more_waiting = take_waiting(qp);
  if (qp.state == QpState::kError) return false;
  qp.connection.flow.resume();
  const bool more = transmit(qp);
  parts_.memory_waits.end_turn(qp.slot);
  if (qp.sq.stalled && !is_held(qp)) stall_.resume(qp);
  stall_.watch(qp, clock_.now);
  settle(qp);
  if (more_waiting && may_receive(qp.state)) return true;
  return more && !waits_in_message(qp) && may_receive(qp.state) &&
         qp.connection.flow.wake_at() == kNever;
}

/// Processes packets that have waited for memory, in order. True: there are more that can be
/// processed.
bool TransportDriver::take_waiting(QueuePair& qp) {
  WaitingPackets& waiting = parts_.memory_waits.packets();
  if (!waiting.any(qp.slot)) [[likely]]
    return false;
  if (is_being_written(qp)) return true;
  for (unsigned i = 0; i < kWaitingPacketsPerTurn; ++i) {
    const WaitingPackets::Packet* const packet = waiting.front(qp.slot);
    if (packet == nullptr) return false;
    if (!take(qp, packet->frame, packet->number, true)) return false;
    // If the queue pair has failed, all its packets are gone.
    if (waiting.front(qp.slot) == packet) waiting.pop(*qp.tenant, qp.slot);
  }
  return true;
}

/// True if the queue pair may send nothing now because the tenant's memory is slow. A connection to
/// another host still acknowledges; only packets with payload, or that request it, wait: see
/// QpEnvironment::send().
bool TransportDriver::waits_for_memory(const QueuePair& qp) {
  if (!parts_.slow_memory.any() || qp.state == QpState::kError) return false;
  const bool whole = qp.type == QpType::kUd || (qp.type == QpType::kUc && qp.is_local());
  return whole && parts_.slow_memory.holds(qp, *qp.tenant);
}

/// True if the queue pair must wait in the middle of the current message.
bool TransportDriver::waits_in_message(const QueuePair& qp) {
  if (parts_.memory_waits.waits(qp.slot, MemoryWaits::Side::kSend)) return true;
  if (!parts_.slow_memory.any() || qp.state == QpState::kError) return false;
  if (!qp.is_local()) return parts_.slow_memory.waits(qp);
  if (parts_.slow_memory.holds(qp, *qp.tenant)) return true;
  const QueuePair* peer = parts_.queue_pairs.find(qp.connection.destination);
  return peer != nullptr && parts_.slow_memory.holds(qp, *peer->tenant);
}

bool TransportDriver::transmit(QueuePair& qp) {
  QpEnvironment env(parts_, qp);
  const Budget& budget = parts_.cpu.budget();
  return std::visit(
      Cases{[&](transport::Ud& ud) { return ud_sender_.transmit(qp, ud); },
            [&](transport::Local& local) {
              if (parts_.captures.on() || parts_.faults.on()) [[unlikely]]
                return transmit_watched(qp, local, env);
              QpLocalLink link(parts_, qp);
              return local.transmit(link, env, clock_.now, budget.bytes);
            },
            [&](auto& wire) { return wire.transmit(env, clock_.now, budget.packets); }},
      qp.transport);
}

/// A turn of a local queue pair with captures, faults or both.
bool TransportDriver::transmit_watched(QueuePair& qp, transport::Local& local, QpEnvironment& env) {
  const std::uint32_t budget = parts_.cpu.budget().bytes;
  QpLocalLink plain(parts_, qp);
  FaultyLink faulty(parts_, qp, clock_.now);
  QpLocalLink& link = parts_.faults.on() ? static_cast<QpLocalLink&>(faulty) : plain;
  if (!parts_.captures.on()) return local.transmit(link, env, clock_.now, budget);
  CapturedLink shown(parts_, qp, link, env, clock_.now);
  const bool more = local.transmit(shown, shown, clock_.now, budget);
  shown.end_turn();
  return more;
}

/// To be called after every call into a state machine. Puts the queue pair into the error state if
/// an error is pending, and arms its timer for its deadline.
void TransportDriver::settle(QueuePair& qp) {
  qp.store_sent();
  if (qp.error.pending) lifecycle_.enter_error(qp);
  if (qp.state == QpState::kError) return;
  if (auto* rc = std::get_if<transport::Rc>(&qp.transport))
    rc->rest_if_silent(qp.connection.route.unresolved_since != kNever);
  if (!qp.sq.stalled && is_held(qp)) stall_.stall(qp);
  const Time deadline =
      std::visit([](const auto& transport) { return transport.deadline(); }, qp.transport);
  // The time must not be in the past: the timer would fire once for each tick since then.
  const Time due = std::min({deadline, qp.connection.flow.wake_at(), qp.sq.look_at});
  const Duration least = qp.sq.stalled ? QpStall::least_wait(qp) : Duration(1);
  lifecycle_.timers().arm(TimerId(qp.slot), std::max(due, clock_.now + least));
}

std::size_t TransportDriver::expire() {
  return lifecycle_.timers().advance(clock_.now, [this](TimerId id) {
    QueuePair* const qp = parts_.queue_pairs.at(id.value);
    if (qp == nullptr) return;
    clock_.work_on(subject_of(*qp));
    expire(*qp);
  });
}

/// Handles a timer that is due. The turn of the queue pair follows and arms the timer again. (A
/// local queue pair finds out in its turn that it is due.)
void TransportDriver::expire(QueuePair& qp) {
  // If this side does not send, or drops packets, the peer's silence does not count. The turn of
  // the queue pair comes with the gate, or when its memory was accessed.
  if (parts_.memory_waits.packets().any(qp.slot)) return;
  if (parts_.slow_memory.any() && !qp.is_local() && qp.state != QpState::kError &&
      parts_.slow_memory.holds(qp, *qp.tenant))
    return;
  if (qp.state != QpState::kError && !qp.is_local()) {
    if (std::holds_alternative<transport::Rc>(qp.transport)) try_other_source(qp);
    QpEnvironment env(parts_, qp);
    std::visit([&](auto& transport) { transport.expire(env, clock_.now); }, qp.transport);
  }
  parts_.cpu.charge(qp, kRunCost);
  parts_.cpu.make_ready(qp);
}

void TransportDriver::receive(QueuePair& qp, const wire::ParsedFrame& frame) {
  clock_.work_on(subject_of(qp));
  qp.tenant->counters.wire.count_received(frame);
  parts_.cpu.charge_packet(*qp.tenant, qp.qos_class, frame.payload.size());
  WaitingPackets& waiting = parts_.memory_waits.packets();
  const bool waits = waiting.any(qp.slot) || is_being_written(qp);
  const std::uint64_t number = waiting.next_number();
  const bool may_wait = waiting.has_room(*qp.tenant, frame);
  if (!waits && take(qp, frame, number, may_wait)) [[likely]]
    return;
  if (may_wait && may_receive(qp.state)) {
    waiting.add(*qp.tenant, qp.slot, frame, number);
    if (waits) parts_.cpu.make_ready(qp);
  } else {
    QpEnvironment(parts_, qp, qp.connection.route, &frame).count(transport::Count::kRateDropped);
  }
}

/// True if a datagram from inside this daemon is being written to the receive that it has drawn.
bool TransportDriver::is_being_written(const QueuePair& qp) const {
  return qp.rq.writer != kNoIndex && parts_.memory_waits.is_sending(qp.rq.writer);
}

/// Processes a packet. False: the memory for the packet is busy, and the packet is to be processed
/// again. `number`: of the packet. `may_wait`: there is room to buffer it.
bool TransportDriver::take(QueuePair& qp, const wire::ParsedFrame& frame, std::uint64_t number,
                           bool may_wait) {
  QpEnvironment env(parts_, qp, qp.connection.route, &frame);
  qp.rq.writer = kNoIndex;
  if (!may_receive(qp.state)) {
    env.count(transport::Count::kBadState);
  } else if (parts_.slow_memory.any() && parts_.slow_memory.is_slow(*qp.tenant) &&
             brings_what_was_read(frame.headers)) {
    env.count(transport::Count::kRateDropped);
  } else if (take_step(qp, env, frame, number, may_wait)) {
    parts_.cpu.make_ready(qp);
  }
  settle(qp);
  return !parts_.memory_waits.waits(qp.slot, MemoryWaits::Side::kReceive);
}

/// Passes a packet to the transport. True: the transport needs a turn.
bool TransportDriver::take_step(QueuePair& qp, QpEnvironment& env, const wire::ParsedFrame& frame,
                                std::uint64_t number, bool may_wait) {
  std::optional<MemoryWaits::Step> step;
  if (may_wait) step.emplace(parts_.memory_waits, qp.slot, MemoryWaits::Side::kReceive, number);
  return std::visit(
      [&](auto& transport) {
        return transport.receive(env, frame.headers, frame.payload, clock_.now);
      },
      qp.transport);
}

}  // namespace softhca::engine
