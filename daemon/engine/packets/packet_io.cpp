// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/packets/packet_io.hpp"

#include <algorithm>
#include <cassert>

#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

// A route asks the neighbour table for the link address again after this time. The table keeps it
// up to date in between.
constexpr Duration kFrameLifetime = std::chrono::milliseconds(100);
// Packets to a neighbour that does not answer wait this long, then count as lost.
constexpr Duration kResolutionPatience = std::chrono::milliseconds(100);
constexpr Duration kResolutionMemory = std::chrono::seconds(1);
/// The neighbour table counts addresses of tenants that are gone for this user.
constexpr TenantId kNobody(0xffff);

constexpr std::uint8_t kEcnCapable = 0x02;  // ECT(0), RFC 3168
constexpr unsigned kDscpShift = 2;
constexpr unsigned kPriorityShift = 13;

Marking marking_of(const QueuePair& qp) {
  const Level* const level = level_of(qp);
  return level == nullptr ? qp.tenant->marking : level->marking.or_else(qp.tenant->marking);
}

/// Tag control information (802.1Q 9.6).
std::optional<std::uint16_t> tag_of(std::optional<std::uint16_t> vlan, const Marking& marking) {
  if (!vlan) return vlan;
  return static_cast<std::uint16_t>(marking.priority.value_or(0) << kPriorityShift | *vlan);
}

/// Returns the bytes that a packet counts for minimum rates: 0 if it is only an answer.
std::uint64_t counted_bytes(std::uint8_t opcode, std::size_t payload) {
  const wire::OpcodeMask mask = wire::opcode_info(opcode).mask;
  const bool whole = mask.has_all(wire::kOnly) && mask.has_any(wire::kRequest | wire::kPayload);
  return payload + (whole ? beyond_bytes(payload) : 0);
}

/// True if the frame belongs to the port's VLAN. A tag with id 0 carries only a priority and counts
/// as untagged (802.1Q 9.6).
bool is_of_vlan(const wire::ParsedFrame& frame, std::optional<std::uint16_t> vlan) {
  constexpr std::uint16_t kVlanId = 0xfff;
  return (frame.ethernet.vlan.value_or(0) & kVlanId) == vlan.value_or(0);
}

/// True if the ICRC shows that the packet was not changed on its way.
bool has_icrc(PortBinding& binding, const wire::ParsedFrame& parsed) {
  if (!binding.hidden) return wire::check_icrc(parsed);
  using Soundness = wire::HiddenIdentifications::Soundness;
  const Soundness soundness = binding.hidden->check(parsed);
  if (soundness == Soundness::kUnexpected) binding.drops.weakly_checked.add();
  return soundness != Soundness::kBroken;
}

}  // namespace

/// Checks that a parsed packet is intact and authentic. Returns kNone if it is.
inline wire::DropReason PacketIo::check(PortBinding& binding, const wire::ParsedFrame& parsed) {
  const auto sound = [&] { return has_icrc(binding, parsed); };
  if (!authentication_.is_on()) [[likely]]
    return sound() ? wire::DropReason::kNone : wire::DropReason::kBadIcrc;
  return authentication_.check(parsed, sound);
}

/// Parses the next packet of a frame. False: the packet is dropped, or a fault delays it.
/// `was_held`: faults were applied to it before.
bool PacketIo::parse(PortBinding& binding, const port::Frame& frame, wire::FrameWalk& packets,
                     wire::ParsedFrame& parsed, bool was_held) {
  wire::DropReason reason = packets.next(parsed);
  if (wire::is_foreign(reason)) {
    const std::uint64_t learned = binding.neighbours->counters().learned.value();
    const bool taken = binding.neighbours->receive(frame.bytes(), clock_.now);
    // A neighbour that has moved to another link address is not reached by the former one.
    if (binding.neighbours->counters().learned.value() != learned) rebuild_frames();
    if (taken) return false;
  }
  if (reason == wire::DropReason::kNone) {
    Arrival arrival = Arrival::kAsItCame;
    if (faults_.on() && !was_held) [[unlikely]]
      arrival = meet_faults(binding, frame, parsed);
    if (arrival == Arrival::kNotNow) return false;
    reason = arrival == Arrival::kDamaged ? wire::DropReason::kBadIcrc : check(binding, parsed);
  }
  if (reason != wire::DropReason::kNone) {
    binding.drops.parse[static_cast<std::size_t>(reason)].add();
    if (captures_.on()) show_dropped(binding, frame, parsed, remark_of(reason));
    return false;
  }
  if (is_of_vlan(parsed, binding.vlan)) return true;
  binding.drops.add(FrameDrop::kForeignVlan);
  if (captures_.on()) show_dropped(binding, frame, parsed, remark_of(FrameDrop::kForeignVlan));
  return false;
}

/// Drops what a port has received that is not served.
void PacketIo::drop_all(PortBinding& binding, std::span<const port::Frame> frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) binding.drops.add(FrameDrop::kPortDown);
  binding.port->release(frames);
}

void PacketIo::exchange_peers(std::unique_ptr<PeerTable>& table) {
  authentication_.exchange(table);
  rebuild_frames();
}

void PacketIo::rebuild_frames() { outdated_until_ = clock_.now + kFrameLifetime; }

/// Adds the port. Packets to neighbours count against the share of the neighbour table of the
/// tenant that has their source address. Packets without a tenant count for kNobody.
void PacketIo::add_port(std::unique_ptr<PortBinding> binding) {
  binding->neighbours->add_user(kNobody);
  if (port::TrainSender* sender = binding->port->trains())
    binding->outbox = std::make_unique<Outbox>(*binding->port, *sender, payloads_);
  if (binding->port->kernel_headers() != nullptr) binding->hidden.emplace();
  ports_.push_back(std::move(binding));
}

void PacketIo::add_user(TenantId tenant) {
  for (const auto& binding : ports_) binding->neighbours->add_user(tenant);
}

std::optional<MacAddress> PacketIo::resolve(PortBinding& binding, const Gid& source,
                                            const Gid& hop) {
  const Tenant* user = addresses_.owner(source, binding.id);
  return binding.neighbours->resolve(hop, clock_.now, user != nullptr ? user->id : kNobody);
}

std::optional<MacAddress> PacketIo::link_address(PortBinding& binding, const Gid& source,
                                                 const Gid& destination, bool may_ask) {
  const auto hop = binding.neighbours->next_hop(destination);
  if (!hop) return std::nullopt;
  return may_ask ? resolve(binding, source, *hop) : binding.neighbours->known(*hop);
}

Reach PacketIo::reach_of(const AddressPath& path, bool may_ask) {
  if (addresses_.is_local(path.destination)) return Reach::kReady;
  if (!path.port) return Reach::kNone;
  PortBinding& binding = *ports_[path.port->value];
  const auto hop = binding.neighbours->next_hop(path.destination);
  if (!hop) return Reach::kNone;
  if (!may_ask && !binding.neighbours->known(*hop)) return Reach::kUnknown;
  return resolve(binding, path.source, *hop) ? Reach::kReady : Reach::kUnknown;
}

/// Returns the traffic class of a route's packets. They are ECN-capable if the queue pair reacts to
/// congestion notifications.
std::uint8_t PacketIo::traffic_class_of(const Route& route, const Marking& marking) const {
  std::uint8_t given = route.path.traffic_class;
  if (marking.dscp)
    given = static_cast<std::uint8_t>(*marking.dscp << kDscpShift | (given & wire::kEcnMask));
  if (congestion_.mode != CongestionMode::kOn || !route.cc_enabled) return given;
  return static_cast<std::uint8_t>((given & ~wire::kEcnMask) | kEcnCapable);
}

/// Builds the headers of the route, for frame_for().
const wire::FrameTemplate* PacketIo::build_frame(Route& route, PortBinding& binding,
                                                 const QueuePair* qp, bool& lost) {
  const auto hop = binding.neighbours->next_hop(route.path.destination);
  const auto mac = hop ? resolve(binding, route.path.source, *hop) : std::nullopt;
  if (!mac) {
    // After a pause in which nothing was sent, the timeout starts anew.
    if (route.unresolved_since == kNever || clock_.now - route.last_unresolved > kResolutionMemory)
      route.unresolved_since = clock_.now;
    route.last_unresolved = clock_.now;
    lost = !hop || clock_.now - route.unresolved_since > kResolutionPatience;
    return nullptr;
  }
  route.unresolved_since = kNever;
  const Marking marking = qp == nullptr ? Marking{} : marking_of(*qp);
  route.frame = wire::FrameTemplate({.source_mac = binding.port->mac(),
                                     .destination_mac = *mac,
                                     .vlan = tag_of(binding.vlan, marking),
                                     .source = route.path.source,
                                     .destination = route.path.destination,
                                     .traffic_class = traffic_class_of(route, marking),
                                     .hop_limit = route.path.hop_limit,
                                     .udp_source_port = binding.source_port(route.udp_source_port),
                                     .flow_label = route.path.flow_label,
                                     .key = authentication_.sending_key(route.path.destination)});
  route.valid_until = clock_.now + kFrameLifetime;
  return &route.frame;
}

/// Records why a packet of the queue pair cannot be sent now. `qp`: null if it belongs to no queue
/// pair.
transport::SendResult PacketIo::refuse(QueuePair* qp, WaitCause cause) {
  if (qp != nullptr) {
    qp->sq.waits.port = cause;
    qp->sq.waits.refused = clock_.now;
  }
  return transport::SendResult::kNoBuffer;
}

transport::SendResult PacketIo::send(Route& route, const wire::Headers& h,
                                     const transport::PayloadSource& payload, QueuePair* qp) {
  if (!route.path.port) return transport::SendResult::kSent;  // no route: counts as lost
  PortBinding& binding = *ports_[route.path.port->value];
  bool lost = false;
  const wire::FrameTemplate* path = frame_for(route, binding, qp, lost);
  if (path == nullptr) {
    // A queue pair that clients share never waits: the neighbour was known when the engine fetched
    // the command.
    const bool is_shared = qp != nullptr && qp->clients != nullptr;
    if (!lost && !is_shared) return refuse(qp, WaitCause::kNeighbour);
    binding.drops.unresolved.add();
    if (captures_.on()) show_lost(binding, route, h, payload, qp);
    if (qp != nullptr) qp->tenant->counters.wire.unresolved.add();
    return transport::SendResult::kSent;
  }
  return send(binding, *path, h, payload, qp);
}

transport::SendResult PacketIo::send(PortBinding& binding, const wire::FrameTemplate& path,
                                     const wire::Headers& h,
                                     const transport::PayloadSource& payload, QueuePair* qp) {
  const std::size_t length = path.frame_length(h.opcode, payload.length);
  // The path MTU is larger than the MTU of the port, or the port is down: the packet is lost, as on
  // a wire.
  if (length - path.link_length() > binding.port->mtu() || !binding.is_served()) {
    cpu_.add(packet_cost(0));
    return transport::SendResult::kSent;
  }
  payloads_.begin();
  const transport::SendResult sent = faults_.on() ? send_faulty(binding, path, h, payload, qp)
                                                  : hand_over(binding, path, h, payload, qp);
  if (sent == transport::SendResult::kNoBuffer && payloads_.is_busy())
    return refuse(qp, WaitCause::kMemory);
  if (sent == transport::SendResult::kNoBuffer) {
    binding.drops.no_buffer.add();
    return refuse(qp, WaitCause::kPort);
  }
  if (sent == transport::SendResult::kNoAccess) return sent;
  cpu_.add(packet_cost(payload.length));
  const std::uint64_t counted = counted_bytes(h.opcode, payload.length);
  cpu_.moved(counted);
  if (qp != nullptr) {
    qp->tenant->counters.wire.count_transmitted(length, payload.length,
                                                h.destination == kMulticastQpn);
    note_sender(*qp, counted != 0 && cpu_.order().went_first().tenant);
  }
  return sent;
}

/// Builds a packet in a frame of its own, after ending the open train. kSent: `frame` has it.
transport::SendResult PacketIo::make_frame(PortBinding& binding, const wire::FrameTemplate& path,
                                           const wire::Headers& h,
                                           const transport::PayloadSource& payload,
                                           const QueuePair* qp, port::Frame& frame) {
  frame = binding.port->allocate();
  if (!frame) return transport::SendResult::kNoBuffer;
  std::uint16_t id = 0;
  if (binding.outbox)
    id = binding.outbox->give_way();
  else if (binding.port->kernel_headers() == nullptr)
    id = ip_identification_++;
  wire::FrameBuilder builder({frame.data, frame.capacity}, path, h, payload.length, id);
  if (payload.length != 0 && payloads_.read(qp, payload, builder.payload()) != Verdict::kOk) {
    binding.port->release({&frame, 1});
    return payloads_.is_busy() ? transport::SendResult::kNoBuffer
                               : transport::SendResult::kNoAccess;
  }
  frame.length = static_cast<std::uint32_t>(builder.finish());
  return transport::SendResult::kSent;
}

transport::SendResult PacketIo::send_frame(PortBinding& binding, const wire::FrameTemplate& path,
                                           const wire::Headers& h,
                                           const transport::PayloadSource& payload,
                                           const QueuePair* qp) {
  port::Frame frame;
  if (const auto made = make_frame(binding, path, h, payload, qp, frame);
      made != transport::SendResult::kSent)
    return made;
  if (captures_.on()) [[unlikely]] {
    const Captures::Part whole = frame.bytes();
    show_sent(binding, qp, {&whole, 1});
  }
  binding.port->transmit(frame);
  return transport::SendResult::kSent;
}

transport::SendResult PacketIo::send_gathered(PortBinding& binding, const wire::FrameTemplate& path,
                                              const wire::Headers& h,
                                              const transport::PayloadSource& payload,
                                              const QueuePair* qp) {
  if (!captures_.on()) [[likely]]
    return binding.outbox->add(path, h, payload, qp);
  Outbox::Parts parts;
  const transport::SendResult sent = binding.outbox->add(path, h, payload, qp, &parts);
  if (sent == transport::SendResult::kSent) show_sent(binding, qp, parts.view());
  return sent;
}

/// Counts a packet for the class of the queue pair. Some ports transmit only at the end of the
/// batch, with a system call, which finish_batch() charges to the classes that sent.
inline void PacketIo::note_sender(const QueuePair& qp, bool first) {
  const auto is_same = [&](const Sender& s) {
    return s.qos_class == qp.qos_class && s.first == first;
  };
  // Most packets are of the same turn as the one before.
  if (!senders_.empty() && is_same(senders_.back())) {
    ++senders_.back().packets;
    return;
  }
  const auto at = std::find_if(senders_.begin(), senders_.end(), is_same);
  if (at == senders_.end())
    senders_.push_back({qp.tenant, qp.qos_class, first, 1});
  else
    ++at->packets;
}

void PacketIo::finish_batch() {
  for (const auto& binding : ports_)
    if (clock_.now >= binding->neighbours->next_deadline()) binding->neighbours->run(clock_.now);
  for (const Sender& sender : senders_)
    cpu_.charge(*sender.tenant, sender.qos_class, sender.packets * kTransmitCost, sender.first);
  senders_.clear();
  if (faults_.on()) [[unlikely]]
    send_held();
  for (const auto& binding : ports_) {
    if (binding->outbox)
      binding->outbox->flush();
    else
      binding->port->flush();
  }
  cpu_.end_work();
}

Time PacketIo::next_deadline() const {
  Time deadline = kNever;
  for (const auto& binding : ports_)
    deadline = std::min(deadline, binding->neighbours->next_deadline());
  return faults_.on() ? std::min(deadline, faults_.next_deadline()) : deadline;
}

}  // namespace softhca::engine
