// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/datagrams/ud_sender.hpp"

#include <array>

#include "daemon/engine/records/costs.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::engine {

using transport::Request;
using transport::RequestKind;

namespace {

constexpr std::size_t kGreatestMtu = 4096;  ///< a datagram is not longer

/// Drops a datagram that the receive of its target has no room for.
Verdict drop_long(QpEnvironment& target, std::uint32_t length, std::uint64_t room) {
  target.explain(RefusalCause::kReceiveTooShort, length, room);
  target.count(transport::Count::kBadLength, 1);
  return Verdict::kOk;
}

}  // namespace

bool UdSender::transmit(QueuePair& qp, transport::Ud& ud) {
  if (qp.state != QpState::kRts && qp.state != QpState::kSqd) return false;
  const std::uint64_t end = parts_.cpu.done() + parts_.cpu.budget().runs;
  const auto goes_on = [&] {
    return !qp.error.pending && parts_.cpu.done() < end && !parts_.slow_memory.is_slow(*qp.tenant);
  };
  return ud.transmit(goes_on, [&](const Request& request) { return send(qp, request); });
}

/// Sends a datagram. False: the port is full or the engine is looking for the neighbour; nothing
/// happened.
bool UdSender::send(QueuePair& qp, const transport::Request& request) {
  const abi::CommandHeader& header = parts_.pcbs.pcb(request.pcb).header;
  AddressHandle* ah = address_handles_.find(header.address_handle);
  if (ah == nullptr || ah->session != qp.session || ah->pd != qp.pd) {
    parts_.command_sink.complete_command(qp, request.pcb, Verdict::kLocalQpOperation);
    parts_.cpu.fail_later(qp, QpFailure::kMalformedCommand);
    return true;
  }
  const std::uint32_t qkey =
      wire::is_controlled_qkey(header.remote_qkey) ? qp.qkey : header.remote_qkey;
  if (Qpn(header.remote_qpn) == kMulticastQpn && ah->route.path.destination.is_multicast())
    return send_to_group(qp, request, *ah, qkey);
  if (addresses_.is_local(ah->route.path.destination)) {
    if (parts_.captures.on()) [[unlikely]] {
      deliver_shown(qp, request, ah->route.path, qkey);
      return true;
    }
    return deliver_in_steps(qp, request, ah->route.path, qkey);
  }
  return send_to_wire(qp, request, Qpn(header.remote_qpn), ah->route, qkey);
}

/// Sends a datagram to another host. Returns false as send() does.
bool UdSender::send_to_wire(QueuePair& qp, const Request& request, Qpn to, Route& route,
                            std::uint32_t qkey) {
  UdCongestion& control = parts_.ud_congestion;
  DatagramPath* path = control.path_of(qp, to, route);
  if (path != nullptr && !control.may_send(qp, route, *path)) return false;
  UdCongestion::mark(route, path);
  QpEnvironment env(parts_, qp, route);
  const std::uint32_t length = request.length;
  const Verdict verdict =
      std::get<transport::Ud>(qp.transport).requester().transmit(env, request, to, qkey);
  if (verdict == Verdict::kBusy) return false;
  // The route names no path before its first packet.
  if (path == nullptr) path = control.path_of(qp, to, route);
  if (path != nullptr && verdict == Verdict::kOk) control.sent(qp, *path, length);
  return true;
}

/// Delivers a datagram in a MemoryWaits::Step. False: memory of either end is busy.
bool UdSender::deliver_in_steps(QueuePair& qp, const Request& request, const AddressPath& path,
                                std::uint32_t qkey) {
  const MemoryWaits::Step step(parts_.memory_waits, qp.slot, MemoryWaits::Side::kSend,
                               parts_.pcbs.pcb(request.pcb).header.sequence);
  return deliver(qp, request, path, qkey);
}

/// Delivers a datagram inside the daemon. False: it is to be tried again, which happens only in a
/// MemoryWaits::Step.
bool UdSender::deliver(QueuePair& qp, const Request& request, const AddressPath& path,
                       std::uint32_t qkey) {
  QueuePair* peer = parts_.queue_pairs.find(Qpn(parts_.pcbs.pcb(request.pcb).header.remote_qpn));
  const Tenant* owner = peer != nullptr && peer->type == QpType::kUd
                            ? addresses_.owner_of(*peer, path.destination, std::nullopt)
                            : nullptr;
  Verdict verdict = Verdict::kOk;
  qp.record.durable->attempted = qp.sq.done + 1;
  keep_store_order();
  if (owner == nullptr)
    qp.count(transport::Count::kBadState);
  else if (peer->clients != nullptr && peer->qkey != qkey)
    parts_.history.count(*peer, transport::Count::kBadQkey);
  else if (peer->clients != nullptr)
    verdict = services_.deliver(qp, *peer, *owner, request, path);
  else
    verdict = offer(qp, *peer, request, path, qkey);
  if (verdict == Verdict::kBusy) {
    qp.record.durable->attempted = qp.sq.done;
    return false;
  }
  parts_.command_sink.complete_command(qp, request.pcb, verdict);
  return true;
}

/// Offers a datagram to a UD queue pair, which may not take it. Returns how it ends for its sender.
Verdict UdSender::offer(QueuePair& qp, QueuePair& peer, const Request& request,
                        const AddressPath& path, std::uint32_t qkey) {
  if (parts_.faults.on() && parts_.faults.loses(qp, peer)) [[unlikely]]
    return Verdict::kOk;
  if (may_receive(peer.state) && !peer.error.pending && peer.qkey == qkey) {
    if (is_taken(qp, peer)) [[unlikely]] {
      if (parts_.memory_waits.put_off()) return Verdict::kBusy;
      parts_.history.count(peer, transport::Count::kReceiveDropped);
      return Verdict::kOk;
    }
    std::array<std::byte, kGreatestMtu> bytes;
    std::span<const std::byte> read;
    if (parts_.memory_waits.is_in_step()) {
      // Reads the sender's memory before a receive is drawn: a drawn receive then waits only for
      // the memory of its own program.
      const std::span<std::byte> whole(bytes.data(), request.length);
      const Verdict gathered = parts_.memory.gather(qp, parts_.pcbs.pcb(request.pcb), 0, whole);
      if (gathered == Verdict::kBusy) return gathered;
      if (gathered != Verdict::kOk) return Verdict::kLocalProtection;
      read = whole;
    }
    const Verdict verdict = receive(qp, peer, request, path, read);
    peer.rq.writer = verdict == Verdict::kBusy ? qp.slot : kNoIndex;
    return verdict;
  }
  if (may_receive(peer.state) && !peer.error.pending)
    parts_.history.count(peer, transport::Count::kBadQkey);
  else
    qp.count(transport::Count::kBadState);
  return Verdict::kOk;
}

/// True if something else is being written to the receive that the peer has drawn.
bool UdSender::is_taken(const QueuePair& qp, const QueuePair& peer) const {
  const std::uint32_t writer = peer.rq.writer;
  if (writer == qp.slot) return false;
  return parts_.memory_waits.packets().any(peer.slot) ||
         (writer != kNoIndex && parts_.memory_waits.is_sending(writer));
}

/// Delivers a datagram to a UD queue pair. `read`: its payload, if that has been read. Returns how
/// the datagram ends for its sender; kBusy: it is to be offered again.
Verdict UdSender::receive(QueuePair& qp, QueuePair& peer, const Request& request,
                          const AddressPath& path, std::span<const std::byte> read) {
  QpEnvironment remote(parts_, peer);
  if (remote.drops_request()) {
    remote.count(transport::Count::kRateDropped);
    return Verdict::kOk;
  }
  const std::uint32_t length = request.length + transport::kRoutingHeaderBytes;
  // A receive too small for an earlier datagram stays drawn and serves the next (IBA 9.8.3.2.2).
  if (!peer.rq.drawn && parts_.receives.draw(peer) != shm::Take::kTaken) {
    remote.count(transport::Count::kReceiveDropped, 1);
    return Verdict::kOk;
  }
  if (length > peer.rq.work->bytes) return drop_long(remote, length, peer.rq.work->bytes);
  const bool has_imm = request.kind == RequestKind::kSendImm;
  const auto opcode = has_imm ? wire::Opcode::kUdSendOnlyImm : wire::Opcode::kUdSendOnly;
  std::array<std::byte, wire::kGrhLength> grh;
  const wire::FrameTemplate header({.source = path.source,
                                    .destination = path.destination,
                                    .traffic_class = path.traffic_class,
                                    .hop_limit = path.hop_limit,
                                    .flow_label = path.flow_label});
  wire::grh_bytes(header, wire::raw(opcode), request.length, grh);
  memory::ScatterList far;
  Verdict verdict = remote.check_stored(parts_.memory.scatter_receive(peer, 0, grh), 0, grh.size());
  const bool header_stored = verdict == Verdict::kOk;
  bool remote_fault = true;
  if (header_stored)
    verdict =
        parts_.memory.resolve_receive(peer, transport::kRoutingHeaderBytes, request.length, far);
  if (verdict == Verdict::kOk)
    verdict = read.empty() ? parts_.memory.move(qp, parts_.pcbs.pcb(request.pcb), 0, request.length,
                                                far.view(), false, remote_fault)
                           : memory::scatter(far.view(), 0, read);
  if (verdict == Verdict::kBusy) return verdict;
  // A fault of the sender leaves the receive drawn for the next datagram.
  if (verdict != Verdict::kOk && !remote_fault) return Verdict::kLocalProtection;
  // The receive may have been drawn for a frame that did not fit: the responder must forget it.
  std::get<transport::Ud>(peer.transport).reset_receiver(Psn());
  if (verdict != Verdict::kOk) {
    if (header_stored) remote.check_stored(verdict, transport::kRoutingHeaderBytes, request.length);
    remote.complete_receive({.verdict = Verdict::kLocalProtection});
    parts_.cpu.fail_later(peer, QpFailure::kReceiveNotWritten);
    return Verdict::kOk;
  }
  remote.took_request(request.length, true);
  parts_.cpu.add(kLocalMessageCost + request.length);
  parts_.cpu.moved(request.length + beyond_bytes(request.length));
  qp.tenant->counters.local_messages.add();
  qp.tenant->counters.local_bytes.add(request.length);
  parts_.receives.complete(peer, {.byte_len = length,
                                  .has_imm = has_imm,
                                  .solicited = request.solicited,
                                  .has_grh = true,
                                  .is_ipv4 = header.is_ipv4(),
                                  .imm = request.imm,
                                  .source = qp.qpn});
  return Verdict::kOk;
}

}  // namespace softhca::engine
