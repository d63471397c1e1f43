// Frames in and out.
#include <array>

#include "daemon/engine/environment.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kBurst = 64;

// A neighbour's link address is asked for again this often; its table keeps it true meanwhile.
constexpr Duration kFrameLifetime = std::chrono::milliseconds(100);
// Packets to a neighbour that does not answer wait so long for it, then count as lost.
constexpr Duration kResolutionPatience = std::chrono::milliseconds(100);

bool is_transport_of(QpType type, wire::Transport transport) {
  switch (type) {
    case QpType::kRc:
      return transport == wire::Transport::kRc;
    case QpType::kUc:
      return transport == wire::Transport::kUc;
    case QpType::kUd:
      return transport == wire::Transport::kUd;
  }
  return false;
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

void Engine::receive_frame(PortBinding& binding, const port::Frame& frame) {
  wire::ParsedFrame parsed;
  const wire::DropReason reason = wire::parse_frame(frame.bytes(), parsed);
  if (wire::is_foreign(reason)) {
    if (!binding.neighbours->receive(frame.bytes(), now_))
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
  const auto drop = [&](FrameDrop why) {
    binding.drops.frame[static_cast<std::size_t>(why)].add();
  };
  QueuePair* qp = find(parsed.headers.destination);
  if (qp == nullptr) return drop(FrameDrop::kUnknownQueuePair);
  if (!is_transport_of(qp->type, wire::opcode_info(parsed.headers.opcode).transport))
    return drop(FrameDrop::kWrongTransport);
  // Full and limited members of the default partition (IBA 10.9.3).
  if ((parsed.headers.pkey & 0x7fff) != 0x7fff) return drop(FrameDrop::kPartitionKey);
  if (qp->type == QpType::kUd) {
    if (!has_address(*qp->tenant, parsed.destination)) return drop(FrameDrop::kUnknownAddress);
  } else if (qp->local || (may_receive(qp->state) && (parsed.destination != qp->path.source ||
                                                      parsed.source != qp->path.destination))) {
    return drop(FrameDrop::kForeignPeer);
  }
  receive_packet(*qp, parsed);
}

bool Engine::has_address(const Tenant& tenant, const Gid& gid) const {
  for (const Tenant::Address& address : tenant.addresses)
    if (address.gid == gid) return true;
  return false;
}

/// The headers below the transport for packets of this queue pair, or null while the next hop is
/// not known. `lost`: it has not answered for so long that packets to it count as lost.
const wire::FrameTemplate* Engine::frame_for(QueuePair& qp, PortBinding& binding, bool& lost) {
  lost = false;
  if (now_ < qp.frame_valid_until) return &qp.frame;
  const auto hop = binding.neighbours->next_hop(qp.path.destination);
  const auto mac = hop ? binding.neighbours->resolve(*hop, now_) : std::nullopt;
  if (!mac) {
    if (qp.unresolved_since == kNever) qp.unresolved_since = now_;
    lost = !hop || now_ - qp.unresolved_since > kResolutionPatience;
    return nullptr;
  }
  qp.unresolved_since = kNever;
  qp.frame = wire::FrameTemplate({.source_mac = binding.port->mac(),
                                  .destination_mac = *mac,
                                  .vlan = binding.vlan,
                                  .source = qp.path.source,
                                  .destination = qp.path.destination,
                                  .traffic_class = qp.path.traffic_class,
                                  .hop_limit = qp.path.hop_limit,
                                  .udp_source_port = qp.udp_source_port,
                                  .flow_label = qp.path.flow_label});
  qp.frame_valid_until = now_ + kFrameLifetime;
  return &qp.frame;
}

transport::SendResult Engine::send_packet(QueuePair& qp, const wire::Headers& h,
                                          const transport::PayloadSource& payload) {
  if (!qp.path.port) return transport::SendResult::kSent;  // to nowhere: as if lost
  PortBinding& binding = *ports_[qp.path.port->value];
  bool lost = false;
  const wire::FrameTemplate* path = frame_for(qp, binding, lost);
  if (path == nullptr) {
    if (!lost) return transport::SendResult::kNoBuffer;
    binding.drops.unresolved.add();
    return transport::SendResult::kSent;
  }
  port::Frame frame = binding.port->allocate();
  if (!frame) {
    binding.drops.no_buffer.add();
    return transport::SendResult::kNoBuffer;
  }
  const std::size_t length = path->frame_length(h.opcode, payload.length);
  if (length > frame.capacity) {  // a path MTU beyond what the port carries: lost, as on a wire
    binding.port->release({&frame, 1});
    return transport::SendResult::kSent;
  }
  wire::FrameBuilder builder({frame.data, length}, *path, h, payload.length, ip_identification_++);
  if (payload.length != 0 && fill(qp, payload, builder.payload()) != Verdict::kOk) {
    binding.port->release({&frame, 1});
    return transport::SendResult::kNoAccess;
  }
  frame.length = static_cast<std::uint32_t>(builder.finish());
  binding.port->transmit(frame);
  qp.tenant->counters.tx_packets.add();
  qp.tenant->counters.tx_bytes.add(payload.length);
  return transport::SendResult::kSent;
}

Verdict Engine::fill(QueuePair& qp, const transport::PayloadSource& payload,
                     std::span<std::byte> out) {
  if (payload.from == transport::PayloadSource::From::kRequest)
    return gather_message(qp, PcbId(payload.cookie), payload.offset, out);
  memory::Region* region =
      remote_region(qp, payload.rkey, payload.addr, payload.length, transport::RemoteAccess::kRead);
  if (region == nullptr) return Verdict::kRemoteAccess;
  return memory::read(*region, region->offset_of(payload.addr), out);
}

void Engine::run_neighbours() {
  for (const auto& binding : ports_)
    if (now_ >= binding->neighbours->next_deadline()) binding->neighbours->run(now_);
}

}  // namespace softhca::engine
