// SPDX-License-Identifier: Apache-2.0

// Reports datagrams that stay inside the daemon to captures, as the packets that they would have
// been.
#include "daemon/engine/datagrams/ud_sender.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::engine {

/// Makes the packet for a datagram. Empty: it is longer than any packet.
std::span<const std::byte> UdSender::make_packet(const QueuePair& qp,
                                                 const transport::Request& request,
                                                 const AddressPath& path, Qpn to,
                                                 std::uint32_t qkey) {
  if (request.length > Captures::kMostPayload) return {};
  CapturedFlow& flow = parts_.captures.flow_of(qp);
  const bool has_imm = request.kind == transport::RequestKind::kSendImm;
  wire::Headers h;
  h.opcode = wire::raw(has_imm ? wire::Opcode::kUdSendOnlyImm : wire::Opcode::kUdSendOnly);
  h.solicited = request.solicited;
  h.destination = to;
  h.pkey = qp.rc.pkey;
  h.psn = flow.next;
  h.qkey = qkey;
  h.source = qp.qpn;
  h.imm = request.imm;
  ++flow.next;
  return parts_.captures.build({.source = path.source,
                                .destination = path.destination,
                                .traffic_class = path.traffic_class,
                                .hop_limit = path.hop_limit,
                                .udp_source_port = wire::datagram_source_port(qp.qpn),
                                .flow_label = path.flow_label},
                               h, request.length, [&](std::span<std::byte> out) {
                                 return parts_.memory.gather(qp, parts_.pcbs.pcb(request.pcb), 0,
                                                             out) == Verdict::kOk;
                               });
}

/// Reports a packet to captures. A queue pair that several clients share sends for the tenant that
/// has the address.
void UdSender::show(const QueuePair& qp, const Tenant* to, const AddressPath& path,
                    std::span<const std::byte> packet, const DropWatch& watch) {
  if (packet.empty()) return;
  const Tenant* const from =
      qp.clients == nullptr ? qp.tenant : addresses_.owner(path.source, std::nullopt);
  parts_.captures.local(from, to, packet, watch.remark());
}

void UdSender::deliver_shown(QueuePair& qp, const transport::Request& request,
                             const AddressPath& path, std::uint32_t qkey) {
  const Qpn number(parts_.pcbs.pcb(request.pcb).header.remote_qpn);
  const QueuePair* const peer = parts_.queue_pairs.find(number);
  const DropWatch watch(nullptr, &qp.tenant->counters,
                        peer != nullptr ? &peer->tenant->counters : nullptr, &lost_datagrams());
  const auto packet = make_packet(qp, request, path, number, qkey);
  deliver(qp, request, path, qkey);
  show(qp, addresses_.owner(path.destination, std::nullopt), path, packet, watch);
}

Verdict UdSender::offer_shown(QueuePair& qp, QueuePair& member, const transport::Request& request,
                              const AddressPath& path, std::uint32_t qkey) {
  const DropWatch watch(nullptr, &qp.tenant->counters, &member.tenant->counters, &lost_datagrams());
  const auto packet = make_packet(qp, request, path, kMulticastQpn, qkey);
  const Verdict verdict = offer(qp, member, request, path, qkey);
  show(qp, member.tenant, path, packet, watch);
  return verdict;
}

}  // namespace softhca::engine
