// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/demux.hpp"

#include "daemon/engine/addresses/peer_address.hpp"

namespace softhca::engine {
namespace {

bool is_transport_of(QpType type, wire::Transport transport) {
  switch (type) {
    case QpType::kRc:
      return transport == wire::Transport::kRc;
    case QpType::kUc:
      return transport == wire::Transport::kUc;
    case QpType::kUd:
      return transport == wire::Transport::kUd;
    case QpType::kXrcSend:
    case QpType::kXrcReceive:
      return transport == wire::Transport::kXrc;
  }
  return false;
}

bool is_from_peer(const wire::ParsedFrame& frame, const Route& route) {
  return frame.destination == route.path.source && frame.source == route.path.destination;
}

/// True if the P_Key is that of the default partition, of a full or a limited member (IBA 10.9.3).
bool is_of_partition(const wire::ParsedFrame& frame) {
  return (frame.headers.pkey & 0x7fff) == 0x7fff;
}

}  // namespace

void Demux::receive(PortBinding& binding, const wire::ParsedFrame& parsed) {
  if (packets_.captures().on()) [[unlikely]]
    return take_shown(binding, parsed);
  take(binding, parsed);
}

void Demux::take(PortBinding& binding, const wire::ParsedFrame& parsed) {
  if (parsed.headers.destination == kMulticastQpn) return receive_multicast(binding, parsed);
  if (is_ud_congestion(binding, parsed)) return;
  QueuePair* qp = queue_pairs_.find(parsed.headers.destination);
  if (qp == nullptr) {
    if (!answer_late(parsed)) binding.drops.add(FrameDrop::kUnknownQueuePair);
    return;
  }
  const wire::Transport transport = wire::opcode_info(parsed.headers.opcode).transport;
  const bool notification = transport == wire::Transport::kCnp;
  if (!notification && !is_transport_of(qp->type, transport))
    return binding.drops.add(FrameDrop::kWrongTransport);
  if (!is_of_partition(parsed)) return binding.drops.add(FrameDrop::kPartitionKey);
  if (qp->type == QpType::kUd) {
    const Tenant* owner = addresses_.owner_of(*qp, parsed.destination, binding.id);
    if (owner == nullptr) return binding.drops.add(FrameDrop::kUnknownAddress);
    if (qp->clients != nullptr && !notification)
      return services_.receive(*qp, *owner, parsed, binding.id);
  } else if (qp->is_local() ||
             (may_receive(qp->state) &&
              (qp->connection.route.path.port != binding.id || !is_from_peer_of(*qp, parsed)))) {
    return binding.drops.add(FrameDrop::kForeignPeer);
  }
  if (notification) {
    qp->tenant->counters.wire.count_received(parsed);
    if (qp->type != QpType::kUd) return congestion_.receive_notification(*qp);
    CongestionCounters& counters = qp->tenant->counters.congestion;
    return (congestion_.reacts() && datagrams_.notified(*qp, parsed) ? counters.cnps_handled
                                                                     : counters.cnps_ignored)
        .add();
  }
  if (parsed.is_congested()) congestion_.notify_sender(binding, *qp, parsed);
  transports_.receive(*qp, parsed);
}

/// Shows the packet to UdCongestion. True if it was meant for that.
bool Demux::is_ud_congestion(PortBinding& binding, const wire::ParsedFrame& parsed) {
  if (parsed.headers.destination == kGeneralServicesQpn)
    return is_of_partition(parsed) && datagrams_.receive(binding, parsed);
  const bool is_datagram =
      datagrams_.is_asked() &&
      wire::opcode_info(parsed.headers.opcode).transport == wire::Transport::kUd;
  if (is_datagram) datagrams_.arrived(binding, parsed);
  return false;
}

/// Gives a copy to each member on the network of the port.
void Demux::receive_multicast(PortBinding& binding, const wire::ParsedFrame& frame) {
  if (wire::opcode_info(frame.headers.opcode).transport != wire::Transport::kUd)
    return binding.drops.add(FrameDrop::kWrongTransport);
  if (!is_of_partition(frame)) return binding.drops.add(FrameDrop::kPartitionKey);
  bool delivered = false;
  multicast_.for_each_on(frame.destination, binding.id, frame.source, [&](QueuePair& member) {
    if (frame.is_congested()) congestion_.notify_sender(binding, member, frame);
    transports_.receive(member, frame);
    delivered = true;
  });
  if (!delivered) binding.drops.add(FrameDrop::kNoGroupMember);
}

/// Answers a packet for a queue pair that is gone, if it may be one that was executed: its
/// acknowledgement was lost. A read or atomic cannot be answered any more.
bool Demux::answer_late(const wire::ParsedFrame& frame) {
  const TimeWait* const gone = time_wait_.find(frame.headers.destination, clock_.now);
  if (gone == nullptr) return false;
  Route route = gone->route();
  if (!is_from_peer(frame, route)) return false;
  const wire::OpcodeInfo& info = wire::opcode_info(frame.headers.opcode);
  if (info.transport != wire::opcode_info(gone->answer.opcode).transport ||
      !info.mask.has_all(wire::kRequest) || info.mask.has_any(wire::kAnswered) ||
      frame.headers.psn.is_after(gone->answer.psn))
    return false;
  if (frame.headers.ack_request) packets_.send(route, gone->answer, {}, nullptr);
  return true;
}

}  // namespace softhca::engine
