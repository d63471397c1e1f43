// SPDX-License-Identifier: Apache-2.0

// The packets that PacketIo reports to captures: sent packets, packets lost because the link
// address is unknown, and malformed or rejected frames.
#include <algorithm>

#include "daemon/engine/packets/packet_io.hpp"

namespace softhca::engine {
namespace {

struct Addresses {
  Gid source;
  Gid destination;
};

/// Returns the addresses of an IP packet, valid or not. Zeros: the frame is not an IP packet.
Addresses addresses_of(std::span<const std::byte> frame) {
  wire::EthernetHeader ethernet;
  const std::size_t link = wire::decode_ethernet(frame, ethernet);
  if (link == 0) return {};
  const std::span<const std::byte> ip = frame.subspan(link);
  if (ethernet.ether_type == wire::kEtherTypeIpv4 && ip.size() >= wire::kIpv4Length)
    return {wire::load_ipv4(&ip[12]), wire::load_ipv4(&ip[16])};
  if (ethernet.ether_type == wire::kEtherTypeIpv6 && ip.size() >= wire::kIpv6Length)
    return {wire::load_ipv6(&ip[8]), wire::load_ipv6(&ip[24])};
  return {};
}

/// True if the queue pair tells which tenant a packet belongs to. Packets of a queue pair that
/// several clients share belong to the tenant that has the address. So do answers on behalf of a
/// queue pair that is gone (null).
bool says_tenant(const QueuePair* qp) { return qp != nullptr && qp->clients == nullptr; }

}  // namespace

/// Returns the tenant to which a packet of the queue pair belongs. `qp`: null for an answer on
/// behalf of a queue pair that is gone. `headers`: at least all headers below the transport.
const Tenant* PacketIo::sender_of(const PortBinding& binding, const QueuePair* qp,
                                  std::span<const std::byte> headers) const {
  return says_tenant(qp) ? qp->tenant : addresses_.owner(addresses_of(headers).source, binding.id);
}

void PacketIo::show_sent(const PortBinding& binding, const QueuePair* qp,
                         std::span<const Captures::Part> parts, CaptureRemark remark) {
  // The first part has all headers below the transport.
  captures_.sent(binding, sender_of(binding, qp, parts[0]), parts, remark);
}

/// Reports the packet as it would have been sent, with zero as the neighbour's link address.
void PacketIo::show_lost(const PortBinding& binding, const Route& route, const wire::Headers& h,
                         const transport::PayloadSource& payload, const QueuePair* qp) {
  if (payload.length > Captures::kMostPayload) return;
  const auto frame = captures_.build({.source_mac = binding.port->mac(),
                                      .vlan = binding.vlan,
                                      .source = route.path.source,
                                      .destination = route.path.destination,
                                      .traffic_class = route.path.traffic_class,
                                      .hop_limit = route.path.hop_limit,
                                      .udp_source_port = binding.source_port(route.udp_source_port),
                                      .flow_label = route.path.flow_label},
                                     h, payload.length, [&](std::span<std::byte> out) {
                                       return payloads_.read(qp, payload, out) == Verdict::kOk;
                                     });
  captures_.sent(binding,
                 says_tenant(qp) ? qp->tenant : addresses_.owner(route.path.source, binding.id),
                 {&frame, 1}, unresolved_remark());
}

/// Reports the one packet if it could be told apart from the others of its train, else the whole
/// train.
void PacketIo::show_dropped(const PortBinding& binding, const port::Frame& frame,
                            const wire::ParsedFrame& parsed, CaptureRemark remark) {
  if (remark == remark_of(wire::DropReason::kBadIcrc) ||
      remark == remark_of(FrameDrop::kForeignVlan))
    return captures_.received(binding, addresses_.owner(parsed.destination, binding.id), parsed,
                              remark);
  const Captures::Part whole = frame.bytes();
  captures_.received(binding, addresses_.owner(addresses_of(whole).destination, binding.id),
                     {&whole, 1}, remark);
}

}  // namespace softhca::engine
