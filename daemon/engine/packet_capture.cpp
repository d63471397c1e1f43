// What PacketIo tells captures: packets that are sent, that are lost for want of a link address,
// and frames that are not packets of RoCE as they should be.
#include <algorithm>

#include "daemon/engine/packet_io.hpp"

namespace softhca::engine {
namespace {

struct Addresses {
  Gid source;
  Gid destination;
};

/// Of an IP packet, sound or not; zeros: it is none.
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

/// What several clients share, and what answers for a queue pair that is gone, is of the tenant
/// that has the address.
bool says_tenant(const QueuePair* qp) { return qp != nullptr && qp->clients == nullptr; }

}  // namespace

/// Whose packet it is that the queue pair sends, or somebody in its place (null). `headers`: all
/// below the transport, at least.
const Tenant* PacketIo::sender_of(const PortBinding& binding, const QueuePair* qp,
                                  std::span<const std::byte> headers) const {
  return says_tenant(qp) ? qp->tenant : addresses_.owner(addresses_of(headers).source, binding.id);
}

void PacketIo::show_sent(const PortBinding& binding, const QueuePair* qp,
                         std::span<const Captures::Part> parts, CaptureRemark remark) {
  // The first part has all headers below the transport.
  captures_.sent(binding, sender_of(binding, qp, parts[0]), parts, remark);
}

/// As it would have been sent to a neighbour whose link address is zero.
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

/// One packet, if it could be told from the others of its train.
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
