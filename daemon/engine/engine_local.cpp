// Messages between queue pairs of this daemon: from the memory of one process to that of the
// other in one copy, with the checks, errors, waits and retries that the wire would bring.
//
// A long message moves a piece per turn, so that it holds nobody up; what it checked at its
// beginning is checked again for every piece, since queue pair and regions may be gone by then.
#include <algorithm>
#include <array>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/transport/codes.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::engine {
namespace {

using transport::awaits_response;
using transport::draws_receive;
using transport::is_atomic;
using transport::is_indivisible;
using transport::Request;
using transport::RequestKind;

constexpr unsigned kMessagesPerTurn = 32;

// A receive that is missing often comes within microseconds: for so long every poll step looks,
// then only the timer of the RNR wait does.
constexpr Duration kPollForReceive = std::chrono::microseconds(50);
// How often to look for a peer when the timeout attribute says "never".
constexpr Duration kPeerInterval = std::chrono::milliseconds(10);

bool is_send(RequestKind kind) {
  return kind == RequestKind::kSend || kind == RequestKind::kSendImm ||
         kind == RequestKind::kSendInvalidate;
}
transport::RemoteAccess access_of(RequestKind kind) {
  if (is_atomic(kind)) return transport::RemoteAccess::kAtomic;
  return kind == RequestKind::kRead ? transport::RemoteAccess::kRead
                                    : transport::RemoteAccess::kWrite;
}

}  // namespace

/// True when it could go on right away.
bool Engine::run_local(QueuePair& qp) {
  if (qp.stalled) {
    retry_stalled(qp);
    return false;
  }
  std::uint32_t budget = cpu_.budget().bytes;
  for (unsigned i = 0; i < kMessagesPerTurn && budget != 0; ++i) {
    if (qp.queue.empty() || qp.error_pending ||
        (qp.state != QpState::kRts && qp.state != QpState::kSqd))
      return false;
    const LocalStep step = step_local(qp, budget);
    if (step == LocalStep::kSleeping) stall(qp);
    if (step != LocalStep::kGoOn) return step == LocalStep::kPolling;
  }
  return true;
}

/// Moves the oldest request on by up to `budget` bytes.
Engine::LocalStep Engine::step_local(QueuePair& qp, std::uint32_t& budget) {
  const Request request = qp.queue.front();
  LocalProgress& progress = qp.progress;
  QueuePair* peer = local_peer(qp);
  if (peer == nullptr) return wait_for_peer(qp);
  if (!progress.begun) {
    const LocalStep step = begin_local(qp, *peer, request);
    if (step != LocalStep::kGoOn || !progress.begun) return step;
  }
  if (draws_receive(request.kind) && !peer->receive_drawn) {
    // The peer was reset in the middle of the message.
    progress = LocalProgress{};
    return LocalStep::kPolling;
  }

  // An atomic runs whole, or it would run twice.
  const bool whole = is_indivisible(request.kind);
  const std::uint32_t bytes =
      whole ? request.length : std::min(budget, request.length - progress.offset);
  if (request.length != 0) {
    bool remote_fault = false;
    const Verdict verdict = whole ? move_local_atomic(qp, *peer, request, remote_fault)
                                  : move_local(qp, *peer, request, bytes, remote_fault);
    if (verdict != Verdict::kOk) {
      if (remote_fault) {
        refuse_local(qp, *peer, is_send(request.kind) ? Verdict::kRemoteOperation : verdict);
      } else {
        end_local(qp, verdict);
      }
      return LocalStep::kGoOn;
    }
  }
  const std::uint64_t cost = (progress.offset == 0 ? kLocalMessageCost : 0) + bytes;
  budget -= static_cast<std::uint32_t>(std::min<std::uint64_t>(budget, cost));
  cpu_.add(cost);
  progress.offset += bytes;
  if (progress.offset == request.length) finish_local(qp, *peer, request);
  return LocalStep::kGoOn;
}

/// The other end, if it is there and connected to this one.
QueuePair* Engine::local_peer(const QueuePair& qp) const {
  QueuePair* peer = find(qp.destination);
  if (peer == nullptr || peer->type != peer_type(qp.type) || !may_receive(peer->state) ||
      peer->error_pending || peer->destination != qp.qpn)
    return nullptr;
  const AddressPath& here = qp.route.path;
  const AddressPath& there = peer->route.path;
  if (there.destination != here.source &&
      !qp.tenant->goes_by(here.source, there.destination, here.port))
    return nullptr;
  if (there.source != here.destination &&
      !peer->tenant->goes_by(there.source, here.destination, there.port))
    return nullptr;
  return peer;
}

/// As if packets went unanswered: UC does not notice, RC times out.
Engine::LocalStep Engine::wait_for_peer(QueuePair& qp) {
  if (qp.type == QpType::kUc) {
    end_local(qp, Verdict::kOk);
    return LocalStep::kGoOn;
  }
  LocalProgress& progress = qp.progress;
  const Duration timeout = transport::ack_timeout(qp.rc.timeout);
  const std::uint8_t retries = progress.retries;
  if (progress.waiting && clock_.now < progress.wait_until) return LocalStep::kSleeping;
  if (progress.waiting && timeout != Duration::zero()) {
    qp.count(transport::Count::kAckTimeouts);
    if (retries >= qp.rc.retry_count) {
      end_local(qp, Verdict::kRetryExceeded);
      return LocalStep::kGoOn;
    }
  }
  const bool waited = progress.waiting;
  progress = LocalProgress{};
  progress.retries = static_cast<std::uint8_t>(retries + (waited ? 1 : 0));
  return pause_local(qp, timeout != Duration::zero() ? timeout : kPeerInterval);
}

Engine::LocalStep Engine::pause_local(QueuePair& qp, Duration wait) {
  if (!qp.progress.waiting) qp.progress.waiting_since = clock_.now;
  qp.progress.waiting = true;
  qp.progress.wait_until = clock_.now + wait;
  timers_.arm(TimerId(qp.slot), qp.progress.wait_until);
  return LocalStep::kSleeping;
}

/// Receiver not ready: UC drops the message, RC waits as long as the peer's attribute says and
/// tries as often as its own does (IBA 9.7.5.2.8). A receive posted meanwhile is taken at once.
Engine::LocalStep Engine::wait_for_receive(QueuePair& qp, const QueuePair& peer) {
  LocalProgress& progress = qp.progress;
  if (qp.type == QpType::kUc) {
    qp.count(transport::Count::kReceiveDropped);
    end_local(qp, Verdict::kOk);
    return LocalStep::kGoOn;
  }
  if (progress.waiting && clock_.now < progress.wait_until) {
    if (clock_.now - progress.waiting_since < kPollForReceive) return LocalStep::kPolling;
    timers_.arm(TimerId(qp.slot), progress.wait_until);
    return LocalStep::kSleeping;
  }
  qp.count(transport::Count::kRnrNakReceived);
  if (qp.rc.rnr_retry != transport::kRnrRetryForEver && progress.rnr_retries >= qp.rc.rnr_retry) {
    end_local(qp, Verdict::kRnrRetryExceeded);
    return LocalStep::kGoOn;
  }
  ++progress.rnr_retries;
  pause_local(qp, transport::rnr_delay(peer.rc.min_rnr_timer));
  return LocalStep::kPolling;
}

/// The checks at the first packet of a message. Sets progress.begun, or ends the request.
Engine::LocalStep Engine::begin_local(QueuePair& qp, QueuePair& peer, const Request& request) {
  QpEnvironment remote(parts_, peer);
  if (peer.state == QpState::kRtr && !peer.established_raised) {
    peer.established_raised = true;
    remote.raise_event(transport::AsyncEvent::kCommunicationEstablished);
  }
  if (awaits_response(request.kind) && qp.rc.max_rd_atomic == 0) {
    end_local(qp, Verdict::kLocalQpOperation);
    return LocalStep::kGoOn;
  }
  if (qp.type == QpType::kXrcSend) {
    const Verdict verdict = receive_queues_.choose(peer, request.xrc_srq);
    if (verdict != Verdict::kOk) {
      refuse_local(qp, peer, verdict);
      return LocalStep::kGoOn;
    }
  }
  if (awaits_response(request.kind) && peer.rc.max_dest_rd_atomic == 0) {
    refuse_local(qp, peer, Verdict::kRemoteInvalidRequest);
    return LocalStep::kGoOn;
  }
  if (!is_send(request.kind) && !is_indivisible(request.kind)) {
    const Verdict verdict = remote.check_remote(request.rkey, request.remote_addr, request.length,
                                                access_of(request.kind));
    if (verdict != Verdict::kOk) {
      refuse_local(qp, peer, verdict);
      return LocalStep::kGoOn;
    }
  }
  if (draws_receive(request.kind)) return draw_local(qp, peer, request);
  qp.progress = LocalProgress{.begun = true};
  return LocalStep::kGoOn;
}

Engine::LocalStep Engine::draw_local(QueuePair& qp, QueuePair& peer, const Request& request) {
  // A receive whose message broke off (the sender was reset, or it did not fit) serves the next.
  const shm::Take take = peer.receive_drawn ? shm::Take::kTaken : receive_queues_.draw(peer);
  if (take == shm::Take::kHostile) return wait_for_peer(qp);
  if (take == shm::Take::kEmpty) return wait_for_receive(qp, peer);
  if (is_send(request.kind) && request.length > peer.receive.bytes) {
    if (qp.type == QpType::kUc) {
      QpEnvironment(parts_, peer).count(transport::Count::kBadLength, 1);
      end_local(qp, Verdict::kOk);
      return LocalStep::kGoOn;
    }
    receive_queues_.complete(peer, {.verdict = Verdict::kLocalLength});
    refuse_local(qp, peer, Verdict::kRemoteInvalidRequest);
    return LocalStep::kGoOn;
  }
  qp.progress = LocalProgress{.begun = true};
  return LocalStep::kGoOn;
}

/// Copies the next `bytes` of a send, write or read. `remote_fault`: the peer's memory is to blame.
Verdict Engine::move_local(QueuePair& qp, QueuePair& peer, const Request& request,
                           std::uint32_t bytes, bool& remote_fault) {
  const std::uint32_t offset = qp.progress.offset;
  memory::ScatterList far;
  remote_fault = true;
  if (is_send(request.kind)) {
    const Verdict verdict = memory_.resolve_receive(peer, offset, bytes, far);
    if (verdict != Verdict::kOk) return verdict;
  } else {
    const std::uint64_t addr = request.remote_addr + offset;
    const RemoteMemory place =
        memory_.remote(peer, peer.remote_pd(), request.rkey, addr, bytes, access_of(request.kind));
    if (place.region == nullptr) return Verdict::kRemoteAccess;
    far.entries[0] = {place.region, place.offset, bytes};
    far.count = 1;
  }
  return memory_.move(qp, pcbs_.pcb(request.pcb), offset, bytes, far.view(),
                      request.kind == RequestKind::kRead, remote_fault);
}

Verdict Engine::move_local_atomic(QueuePair& qp, QueuePair& peer, const Request& request,
                                  bool& remote_fault) {
  std::uint64_t original = 0;
  std::uint64_t swap = request.swap;
  const bool store = request.kind == RequestKind::kAtomicWrite;
  if (store) {
    const Verdict verdict =
        memory_.gather(qp, pcbs_.pcb(request.pcb), 0, std::as_writable_bytes(std::span(&swap, 1)));
    if (verdict != Verdict::kOk) return verdict;
  }
  remote_fault = true;
  const Verdict verdict = memory_.atomic(peer, request.rkey, request.remote_addr, request.kind,
                                         request.compare_add, swap, original);
  if (verdict != Verdict::kOk || store) return verdict;
  remote_fault = false;
  return memory_.scatter(qp, pcbs_.pcb(request.pcb), 0, std::as_bytes(std::span(&original, 1)));
}

void Engine::finish_local(QueuePair& qp, QueuePair& peer, const Request& request) {
  const bool invalidates = request.kind == RequestKind::kSendInvalidate;
  if (invalidates && QpEnvironment(parts_, peer).invalidate_key(request.rkey) != Verdict::kOk)
    return refuse_local(qp, peer, Verdict::kRemoteAccess);
  if (draws_receive(request.kind)) {
    transport::ReceiveCompletion completion;
    completion.byte_len = request.length;
    completion.from_write = request.kind == RequestKind::kWriteImm;
    completion.has_imm =
        request.kind == RequestKind::kWriteImm || request.kind == RequestKind::kSendImm;
    completion.solicited = request.solicited;
    completion.invalidated = invalidates;
    completion.imm = invalidates ? request.rkey.value : request.imm;
    receive_queues_.complete(peer, completion);
  }
  TenantCounters& counters = qp.tenant->counters;
  counters.local_messages.add();
  counters.local_bytes.add(request.length);
  if (const auto counted = transport::request_count(request.kind)) peer.count(*counted);
  end_local(qp, Verdict::kOk);
}

/// The peer answers with a fatal NAK: both ends go to the error state (UC: the message is lost).
/// The peer does so later, for it may be this very queue pair.
void Engine::refuse_local(QueuePair& qp, QueuePair& peer, Verdict verdict) {
  const bool uc = qp.type == QpType::kUc;
  std::optional<transport::AsyncEvent> event;
  if (verdict == Verdict::kRemoteOperation) {
    // The peer's own receive is to blame: its consumer learns the cause there (IBA 9.9.3).
    receive_queues_.complete(peer, {.verdict = Verdict::kLocalProtection});
  } else if (uc) {
    return end_local(qp, Verdict::kOk);
  } else {
    event = verdict == Verdict::kRemoteAccess ? transport::AsyncEvent::kAccessError
                                              : transport::AsyncEvent::kInvalidRequest;
  }
  QpEnvironment(parts_, peer).enter_error(event);
  end_local(qp, uc ? Verdict::kOk : verdict);
}

void Engine::end_local(QueuePair& qp, Verdict verdict) {
  const PcbId pcb = qp.queue.pop();
  qp.progress = LocalProgress{};
  complete_command(qp, pcb, verdict);
}

// --- datagrams

void Engine::deliver_datagram(QueuePair& qp, const Request& request, const AddressPath& path,
                              std::uint32_t qkey) {
  QueuePair* peer = find(Qpn(pcbs_.pcb(request.pcb).header.remote_qpn));
  const Tenant* owner = peer != nullptr && peer->type == QpType::kUd
                            ? owner_of(*peer, path.destination, std::nullopt)
                            : nullptr;
  Verdict verdict = Verdict::kOk;
  if (owner == nullptr)
    qp.count(transport::Count::kBadState);
  else if (peer->clients != nullptr && peer->qkey != qkey)
    peer->count(transport::Count::kBadQkey);
  else if (peer->clients != nullptr)
    verdict = deliver_to_clients(qp, *peer, *owner, request, path);
  else
    verdict = offer_datagram(qp, *peer, request, path, qkey);
  complete_command(qp, request.pcb, verdict);
}

/// To a UD queue pair, if it takes it. How the datagram ends for its sender.
Verdict Engine::offer_datagram(QueuePair& qp, QueuePair& peer, const Request& request,
                               const AddressPath& path, std::uint32_t qkey) {
  if (may_receive(peer.state) && !peer.error_pending && peer.qkey == qkey)
    return receive_datagram(qp, peer, request, path);
  if (may_receive(peer.state) && !peer.error_pending)
    peer.count(transport::Count::kBadQkey);
  else
    qp.count(transport::Count::kBadState);
  return Verdict::kOk;
}

/// How the datagram ends for its sender.
Verdict Engine::receive_datagram(QueuePair& qp, QueuePair& peer, const Request& request,
                                 const AddressPath& path) {
  QpEnvironment remote(parts_, peer);
  const std::uint32_t length = request.length + transport::kRoutingHeaderBytes;
  // A receive too small for an earlier datagram stays drawn and serves the next (IBA 9.8.3.2.2).
  if (!peer.receive_drawn && receive_queues_.draw(peer) != shm::Take::kTaken) {
    remote.count(transport::Count::kReceiveDropped, 1);
    return Verdict::kOk;
  }
  if (length > peer.receive.bytes) {
    remote.count(transport::Count::kBadLength, 1);
    return Verdict::kOk;
  }

  const bool has_imm = request.kind == RequestKind::kSendImm;
  const wire::Opcode opcode = has_imm ? wire::Opcode::kUdSendOnlyImm : wire::Opcode::kUdSendOnly;
  std::array<std::byte, wire::kGrhLength> grh;
  const wire::FrameTemplate header({.source = path.source,
                                    .destination = path.destination,
                                    .traffic_class = path.traffic_class,
                                    .hop_limit = path.hop_limit,
                                    .flow_label = path.flow_label});
  wire::grh_bytes(header, wire::raw(opcode), request.length, grh);
  memory::ScatterList far;
  Verdict verdict = memory_.scatter_receive(peer, 0, grh);
  bool remote_fault = true;
  if (verdict == Verdict::kOk)
    verdict = memory_.resolve_receive(peer, transport::kRoutingHeaderBytes, request.length, far);
  if (verdict == Verdict::kOk)
    verdict = memory_.move(qp, pcbs_.pcb(request.pcb), 0, request.length, far.view(), false,
                           remote_fault);
  // Otherwise the receive stays drawn and serves the next datagram.
  if (verdict != Verdict::kOk && !remote_fault) return Verdict::kLocalProtection;
  // It may have been drawn for a frame that did not fit: the responder must forget it.
  peer.ud_responder.reset();
  if (verdict != Verdict::kOk) {
    receive_queues_.complete(peer, {.verdict = Verdict::kLocalProtection});
    cpu_.fail_later(peer, "a datagram did not fit its receive");
    return Verdict::kOk;
  }
  cpu_.add(kLocalMessageCost + request.length);
  qp.tenant->counters.local_messages.add();
  qp.tenant->counters.local_bytes.add(request.length);
  receive_queues_.complete(peer, {.byte_len = length,
                                  .has_imm = has_imm,
                                  .solicited = request.solicited,
                                  .has_grh = true,
                                  .is_ipv4 = header.is_ipv4(),
                                  .imm = request.imm,
                                  .source = qp.qpn});
  return Verdict::kOk;
}

}  // namespace softhca::engine
