// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/packets/congestion_control.hpp"

namespace softhca::engine {
namespace {

// Headers of a packet: Ethernet, IPv4, UDP and base transport header, ICRC. The charge of a flow
// need not be exact, but small packets must not be free.
constexpr std::uint32_t kHeaderBytes = 58;

}  // namespace

void CongestionControl::notify_sender(PortBinding& binding, QueuePair& qp,
                                      const wire::ParsedFrame& frame) {
  qp.tenant->counters.congestion.marked_packets.add();
  if (parameters_.mode == CongestionMode::kOff || !may_receive(qp.state) ||
      clock_.now < qp.connection.next_cnp || frame.destination.is_multicast() ||
      frame.source.is_multicast())  // one packet would cause many notifications
    return;
  // Any host can send a datagram with a made-up source, so the link address of such a source is not
  // asked for.
  const bool is_peer = qp.type != QpType::kUd;
  const auto mac = packets_.link_address(binding, frame.destination, frame.source, is_peer);
  if (!mac) return;
  std::optional<std::uint16_t> vlan = binding.vlan;
  if (vlan) vlan = static_cast<std::uint16_t>(*vlan | parameters_.cnp_dscp >> 3 << 13);
  const wire::FrameTemplate path(
      {.source_mac = binding.port->mac(),
       .destination_mac = *mac,
       .vlan = vlan,
       .source = frame.destination,
       .destination = frame.source,
       .traffic_class = static_cast<std::uint8_t>(parameters_.cnp_dscp << 2),
       .udp_source_port =
           binding.source_port(qp.type == QpType::kUd ? wire::datagram_source_port(qp.qpn)
                                                      : qp.connection.route.udp_source_port),
       .key = packets_.authentication().sending_key(frame.source)});
  wire::Headers h;
  h.opcode = wire::raw(wire::Opcode::kCnp);
  h.migrated = false;
  h.becn = true;
  h.pkey = qp.rc.pkey;
  h.destination = qp.type == QpType::kUd ? frame.headers.source : qp.connection.destination;
  if (packets_.send(binding, path, h, {}, &qp) != transport::SendResult::kSent) return;
  qp.tenant->counters.congestion.cnps_sent.add();
  qp.connection.next_cnp =
      clock_.now + std::chrono::microseconds(parameters_.fixed.min_time_between_cnps);
}

void CongestionControl::receive_notification(QueuePair& qp) {
  if (parameters_.mode != CongestionMode::kOn || !qp.connection.route.cc_enabled ||
      !may_receive(qp.state))
    return qp.tenant->counters.congestion.cnps_ignored.add();
  qp.tenant->counters.congestion.cnps_handled.add();
  const double before = qp.connection.flow.rate();
  qp.connection.flow.notify(parameters_, clock_.now);
  note_rate(qp, before);
  constexpr double kKilo = 1000;
  history_.add(qp, QpEventKind::kCongestion,
               {.detail = static_cast<std::uint32_t>(qp.connection.flow.rate() / kKilo)});
}

transport::SendResult CongestionControl::send_paced(QueuePair& qp, Route& route,
                                                    const wire::Headers& h,
                                                    const transport::PayloadSource& payload) {
  const double before = qp.connection.flow.rate();
  if (parameters_.mode == CongestionMode::kOn)
    qp.connection.flow.advance(parameters_, clock_.now);
  else
    qp.connection.flow.release();
  note_rate(qp, before);
  if (!qp.connection.flow.limited()) return packets_.send(route, h, payload, &qp);
  if (!qp.connection.flow.may_send(clock_.now)) return transport::SendResult::kNoBuffer;

  const std::uint32_t bytes = kHeaderBytes + payload.length;
  wire::Headers paced = h;
  // The pause that follows must not look like silence of the peer.
  if (is_reliable(qp.type) && wire::opcode_info(h.opcode).mask.has_all(wire::kRequest) &&
      qp.connection.flow.holds_after(bytes, clock_.now))
    paced.ack_request = true;
  const auto result = packets_.send(route, paced, payload, &qp);
  if (result != transport::SendResult::kSent) return result;
  const double rate = qp.connection.flow.rate();
  qp.connection.flow.sent(parameters_, bytes, clock_.now);
  note_rate(qp, rate);
  return result;
}

void CongestionControl::release(QueuePair& qp) {
  const double before = qp.connection.flow.rate();
  qp.connection.flow.release();
  note_rate(qp, before);
}

/// Updates the sums of the tenant after the rate of the queue pair was `before`.
void CongestionControl::note_rate(QueuePair& qp, double before) {
  const double after = qp.connection.flow.rate();
  if (after == before) return;
  TenantCounters& counters = qp.tenant->counters;
  counters.congestion.paced_rate.add(static_cast<std::uint64_t>(after) -
                                     static_cast<std::uint64_t>(before));
  if (before == 0) counters.congestion.paced_queue_pairs.add();
  if (after == 0) counters.congestion.paced_queue_pairs.subtract();
}

}  // namespace softhca::engine
