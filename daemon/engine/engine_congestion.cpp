// Congestion on the way: marks of switches are told to the sender of the packet (annex A17 of the
// InfiniBand specification), and what peers tell slows a queue pair down
// (transport/reaction_point).
//
// Connected queue pairs react, each as one flow with all it sends, read responses included, but not
// its acknowledgements. Datagrams do not, since what a queue pair sends to one peer must not wait
// for the way to another; so they are not sent as ECN-capable.
#include "daemon/engine/environment.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint8_t kEcnCapable = 0x02;  // ECT(0), RFC 3168

// Of a packet: Ethernet, IPv4, UDP and base transport header, ICRC. What a flow is charged with
// need not be exact, but small packets must not go for free.
constexpr std::uint32_t kHeaderBytes = 58;

}  // namespace

std::uint8_t Engine::traffic_class_of(const Route& route) const {
  const std::uint8_t given = route.path.traffic_class;
  if (congestion_.mode != CongestionMode::kOn || !route.reacts) return given;
  return static_cast<std::uint8_t>((given & ~wire::kEcnMask) | kEcnCapable);
}

/// A marked packet for `qp` has come. Without the link address of its sender, or a frame, the next
/// one has its turn.
void Engine::notify_sender(PortBinding& binding, QueuePair& qp, const wire::ParsedFrame& frame) {
  qp.tenant->counters.marked_packets.add();
  if (congestion_.mode == CongestionMode::kOff || !may_receive(qp.state) ||
      clock_.now < qp.next_cnp || frame.destination.is_multicast())
    return;
  const auto hop = binding.neighbours->next_hop(frame.source);
  const auto mac = hop ? link_address(binding, frame.destination, *hop) : std::nullopt;
  if (!mac) return;
  std::optional<std::uint16_t> vlan = binding.vlan;
  if (vlan) vlan = static_cast<std::uint16_t>(*vlan | congestion_.cnp_802p_prio << 13);
  const wire::FrameTemplate path(
      {.source_mac = binding.port->mac(),
       .destination_mac = *mac,
       .vlan = vlan,
       .source = frame.destination,
       .destination = frame.source,
       .traffic_class = static_cast<std::uint8_t>(congestion_.cnp_dscp << 2),
       .udp_source_port =
           qp.type == QpType::kUd ? wire::datagram_source_port(qp.qpn) : qp.route.udp_source_port});
  wire::Headers h;
  h.opcode = wire::raw(wire::Opcode::kCnp);
  h.migrated = false;
  h.becn = true;
  h.pkey = qp.rc.pkey;
  h.destination = qp.type == QpType::kUd ? frame.headers.source : qp.destination;
  if (send_frame(binding, path, h, {}, &qp) != transport::SendResult::kSent) return;
  qp.tenant->counters.cnps_sent.add();
  qp.next_cnp = clock_.now + std::chrono::microseconds(congestion_.min_time_between_cnps);
}

void Engine::receive_notification(QueuePair& qp) {
  if (congestion_.mode != CongestionMode::kOn || !qp.route.reacts || !may_receive(qp.state))
    return qp.tenant->counters.cnps_ignored.add();
  qp.tenant->counters.cnps_handled.add();
  const double before = qp.flow.rate();
  qp.flow.notify(congestion_, clock_.now);
  note_rate(qp, before);
}

/// A packet of a queue pair that is slowed down. It goes, or waits as if the port were full.
transport::SendResult Engine::send_paced(QueuePair& qp, Route& route, const wire::Headers& h,
                                         const transport::PayloadSource& payload) {
  const double before = qp.flow.rate();
  if (congestion_.mode == CongestionMode::kOn)
    qp.flow.advance(congestion_, clock_.now);
  else
    qp.flow.release();
  note_rate(qp, before);
  if (!qp.flow.limited()) return send_packet(route, h, payload, &qp);
  if (!qp.flow.may_send(clock_.now)) return transport::SendResult::kNoBuffer;

  const std::uint32_t bytes = kHeaderBytes + payload.length;
  wire::Headers paced = h;
  // The pause that follows must not look like the peer's silence.
  if (is_reliable(qp.type) && wire::opcode_info(h.opcode).mask.has_all(wire::kRequest) &&
      qp.flow.holds_after(bytes, clock_.now))
    paced.ack_request = true;
  const auto result = send_packet(route, paced, payload, &qp);
  if (result != transport::SendResult::kSent) return result;
  const double rate = qp.flow.rate();
  qp.flow.sent(congestion_, bytes, clock_.now);
  note_rate(qp, rate);
  return result;
}

void Engine::release_flow(QueuePair& qp) {
  const double before = qp.flow.rate();
  qp.flow.release();
  note_rate(qp, before);
}

/// Keeps the sums of the tenant true when the rate of the queue pair was `before`.
void Engine::note_rate(QueuePair& qp, double before) {
  const double after = qp.flow.rate();
  if (after == before) return;
  TenantCounters& counters = qp.tenant->counters;
  counters.paced_rate.add(static_cast<std::uint64_t>(after) - static_cast<std::uint64_t>(before));
  if (before == 0) counters.paced_queue_pairs.add();
  if (after == 0) counters.paced_queue_pairs.subtract();
}

}  // namespace softhca::engine
