// Frames in and out.
#include <array>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/environment.hpp"
#include "daemon/engine/peer_address.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kBurst = 64;

// A neighbour's link address is asked for again this often; its table keeps it true meanwhile.
constexpr Duration kFrameLifetime = std::chrono::milliseconds(100);
// Packets to a neighbour that does not answer wait so long for it, then count as lost.
constexpr Duration kResolutionPatience = std::chrono::milliseconds(100);
constexpr Duration kResolutionMemory = std::chrono::seconds(1);
/// Among the users of neighbours: for addresses whose tenant has gone.
constexpr TenantId kNobody(0xffff);

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

/// Frames of another VLAN are not for this port; a tag of priority only (id 0) is none
/// (802.1Q 9.6).
bool is_of_vlan(const wire::ParsedFrame& frame, std::optional<std::uint16_t> vlan) {
  constexpr std::uint16_t kVlanId = 0xfff;
  return (frame.ethernet.vlan.value_or(0) & kVlanId) == vlan.value_or(0);
}

bool is_from_peer(const wire::ParsedFrame& frame, const Route& route) {
  return frame.destination == route.path.source && frame.source == route.path.destination;
}

}  // namespace

std::size_t Engine::receive_frames() {
  std::size_t received = 0;
  for (const auto& binding : ports_) {
    std::array<port::Frame, kBurst> frames;
    const std::size_t count = binding->port->receive(frames);
    for (std::size_t i = 0; i < count; ++i) {
      if (i + 1 < count) __builtin_prefetch(frames[i + 1].data);
      receive_frame(*binding, frames[i]);
    }
    if (count != 0) binding->port->release({frames.data(), count});
    received += count;
  }
  return received;
}

/// Full and limited members of the default partition (IBA 10.9.3).
bool Engine::is_of_partition(const wire::ParsedFrame& frame) {
  return (frame.headers.pkey & 0x7fff) == 0x7fff;
}

void Engine::receive_frame(PortBinding& binding, const port::Frame& frame) {
  wire::ParsedFrame parsed;
  const wire::DropReason reason = wire::parse_frame(frame.bytes(), parsed);
  if (wire::is_foreign(reason)) {
    if (!binding.neighbours->receive(frame.bytes(), clock_.now))
      binding.drops.parse[static_cast<std::size_t>(reason)].add();
    return;
  }
  if (reason != wire::DropReason::kNone) {
    binding.drops.parse[static_cast<std::size_t>(reason)].add();
    return;
  }
  if (!wire::check_icrc(parsed)) {
    binding.drops.parse[static_cast<std::size_t>(wire::DropReason::kBadIcrc)].add();
    return;
  }
  if (!is_of_vlan(parsed, binding.vlan)) return binding.drops.add(FrameDrop::kForeignVlan);
  if (parsed.headers.destination == kMulticastQpn) return receive_multicast(binding, parsed);
  QueuePair* qp = find(parsed.headers.destination);
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
    const Tenant* owner = owner_of(*qp, parsed.destination, binding.id);
    if (owner == nullptr) return binding.drops.add(FrameDrop::kUnknownAddress);
    if (qp->clients != nullptr && !notification)
      return receive_for_clients(*qp, *owner, parsed, binding.id);
  } else if (qp->local || (may_receive(qp->state) &&
                           (qp->route.path.port != binding.id || !is_from_peer_of(*qp, parsed)))) {
    return binding.drops.add(FrameDrop::kForeignPeer);
  }
  if (notification) {
    qp->tenant->counters.count_received(parsed);
    return receive_notification(*qp);
  }
  if (parsed.is_congested()) notify_sender(binding, *qp, parsed);
  receive_packet(*qp, parsed);
}

/// A packet for a queue pair that is gone, which may be one that was executed: its acknowledgement
/// was lost. A read or atomic cannot be answered any more.
bool Engine::answer_late(const wire::ParsedFrame& frame) {
  TimeWait* gone = time_wait_.find(frame.headers.destination, clock_.now);
  if (gone == nullptr || !is_from_peer(frame, gone->route)) return false;
  const wire::OpcodeInfo& info = wire::opcode_info(frame.headers.opcode);
  if (info.transport != wire::opcode_info(gone->answer.opcode).transport ||
      !info.mask.has_all(wire::kRequest) ||
      info.mask.has_any(wire::kRead | wire::kAtomic | wire::kAtomicWrite) ||
      frame.headers.psn.is_after(gone->answer.psn))
    return false;
  if (frame.headers.ack_request) send_packet(gone->route, gone->answer, {}, nullptr);
  return true;
}

/// The tenant whose address the packets come from has its part of the neighbour table.
std::optional<MacAddress> Engine::link_address(PortBinding& binding, const Gid& source,
                                               const Gid& hop) {
  const Tenant* user = addresses_.owner(source, binding.id);
  return binding.neighbours->resolve(hop, clock_.now, user != nullptr ? user->id : kNobody);
}

/// The headers below the transport for packets that go this way, or null while the next hop is not
/// known. `lost`: it has not answered for so long that packets to it count as lost.
const wire::FrameTemplate* Engine::frame_for(Route& route, PortBinding& binding, bool& lost) {
  lost = false;
  if (clock_.now < route.valid_until) return &route.frame;
  const auto hop = binding.neighbours->next_hop(route.path.destination);
  const auto mac = hop ? link_address(binding, route.path.source, *hop) : std::nullopt;
  if (!mac) {
    // After a pause in which nothing was sent, patience starts anew.
    if (route.unresolved_since == kNever || clock_.now - route.last_unresolved > kResolutionMemory)
      route.unresolved_since = clock_.now;
    route.last_unresolved = clock_.now;
    lost = !hop || clock_.now - route.unresolved_since > kResolutionPatience;
    return nullptr;
  }
  route.unresolved_since = kNever;
  route.frame = wire::FrameTemplate({.source_mac = binding.port->mac(),
                                     .destination_mac = *mac,
                                     .vlan = binding.vlan,
                                     .source = route.path.source,
                                     .destination = route.path.destination,
                                     .traffic_class = traffic_class_of(route),
                                     .hop_limit = route.path.hop_limit,
                                     .udp_source_port = route.udp_source_port,
                                     .flow_label = route.path.flow_label});
  route.valid_until = clock_.now + kFrameLifetime;
  return &route.frame;
}

/// `qp` is whose payload and packet it is; null for an answer on behalf of one that is gone.
transport::SendResult Engine::send_packet(Route& route, const wire::Headers& h,
                                          const transport::PayloadSource& payload, QueuePair* qp) {
  if (!route.path.port) return transport::SendResult::kSent;  // to nowhere: as if lost
  PortBinding& binding = *ports_[route.path.port->value];
  bool lost = false;
  const wire::FrameTemplate* path = frame_for(route, binding, lost);
  if (path == nullptr) {
    // What clients share waits for nobody: the neighbour was known when the command was taken in.
    const bool is_shared = qp != nullptr && qp->clients != nullptr;
    if (!lost && !is_shared) return transport::SendResult::kNoBuffer;
    binding.drops.unresolved.add();
    if (qp != nullptr) qp->tenant->counters.unresolved.add();
    return transport::SendResult::kSent;
  }
  return send_frame(binding, *path, h, payload, qp);
}

transport::SendResult Engine::send_frame(PortBinding& binding, const wire::FrameTemplate& path,
                                         const wire::Headers& h,
                                         const transport::PayloadSource& payload, QueuePair* qp) {
  port::Frame frame = binding.port->allocate();
  if (!frame) {
    binding.drops.no_buffer.add();
    return transport::SendResult::kNoBuffer;
  }
  const std::size_t length = path.frame_length(h.opcode, payload.length);
  if (length > frame.capacity) {  // a path MTU beyond what the port carries: lost, as on a wire
    binding.port->release({&frame, 1});
    return transport::SendResult::kSent;
  }
  wire::FrameBuilder builder({frame.data, length}, path, h, payload.length, ip_identification_++);
  if (payload.length != 0 && fill(*qp, payload, builder.payload()) != Verdict::kOk) {
    binding.port->release({&frame, 1});
    return transport::SendResult::kNoAccess;
  }
  frame.length = static_cast<std::uint32_t>(builder.finish());
  binding.port->transmit(frame);
  cpu_.add(packet_cost(payload.length));
  if (qp != nullptr)
    qp->tenant->counters.count_transmitted(frame.length, payload.length,
                                           h.destination == kMulticastQpn);
  return transport::SendResult::kSent;
}

Verdict Engine::fill(QueuePair& qp, const transport::PayloadSource& payload,
                     std::span<std::byte> out) {
  if (payload.from == transport::PayloadSource::From::kRequest)
    return memory_.gather(qp, pcbs_.pcb(PcbId(payload.cookie)), payload.offset, out);
  memory::PdId pd = qp.pd;
  if (qp.type == QpType::kXrcReceive) {
    const SharedReceiveQueue* srq = receive_queues_.find_xrc(qp, payload.xrc_srq);
    if (srq == nullptr) return Verdict::kRemoteAccess;
    pd = srq->pd;
  }
  const RemoteMemory place = memory_.remote(qp, pd, payload.rkey, payload.addr, payload.length,
                                            transport::RemoteAccess::kRead);
  if (place.region == nullptr) return Verdict::kRemoteAccess;
  return memory::read(*place.region, place.offset, out);
}

void Engine::run_neighbours() {
  for (const auto& binding : ports_)
    if (clock_.now >= binding->neighbours->next_deadline()) binding->neighbours->run(clock_.now);
}

}  // namespace softhca::engine
