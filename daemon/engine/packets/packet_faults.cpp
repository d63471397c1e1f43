// SPDX-License-Identifier: Apache-2.0

// Injects faults into packets at a port.
#include <cstring>

#include "daemon/engine/packets/packet_io.hpp"
#include "daemon/port/frame_kind.hpp"

namespace softhca::engine {

using transport::SendResult;

/// Sends a packet to which a fault may apply. It goes as a frame of its own.
SendResult PacketIo::send_faulty(PortBinding& binding, const wire::FrameTemplate& path,
                                 const wire::Headers& h, const transport::PayloadSource& payload,
                                 const QueuePair* qp) {
  FaultPassage passage{.tenant = nullptr,
                       .port = binding.id,
                       .qpn = qp != nullptr ? qp->qpn : Qpn(),
                       .direction = FaultDirection::kSent};
  std::array<std::byte, wire::kMaxNetworkHeaders> head;
  path.write(head.data(), 0, 0);
  passage.tenant = sender_of(binding, qp, head);
  passage.ecn_capable = port::is_ecn_capable(head);
  if (!faults_.concern(passage)) return hand_over(binding, path, h, payload, qp);

  port::Frame frame;
  if (const auto made = make_frame(binding, path, h, payload, qp, frame); made != SendResult::kSent)
    return made;
  const Faults::Fate fate = faults_.decide(passage);
  if (fate.damager != nullptr)
    Faults::corrupt(fate, {frame.data + path.length(), frame.length - path.length()});
  if (fate.mark) port::mark_congested({frame.data, frame.length});
  const Captures::Part whole = frame.bytes();
  if (captures_.on())
    show_sent(binding, qp, {&whole, 1},
              fate.any() ? injected_remark(fate.kind()) : CaptureRemark::kNone);
  if (fate.duplicate && !send_copy(binding, whole)) faults_.lack_room();
  if (fate.drop ||
      (fate.holder != nullptr && faults_.hold(fate, passage, h.destination, {&whole, 1}))) {
    binding.port->release({&frame, 1});
    return SendResult::kSent;
  }
  binding.port->transmit(frame);
  faults_.passed(passage, h.destination);
  return SendResult::kSent;
}

/// Sends a copy of the packet now. False: the port is full.
bool PacketIo::send_copy(PortBinding& binding, std::span<const std::byte> packet) {
  port::Frame frame = binding.port->allocate();
  if (!frame) return false;
  if (binding.outbox) binding.outbox->give_way();
  assert(packet.size() <= frame.capacity);
  std::memcpy(frame.data, packet.data(), packet.size());
  frame.length = static_cast<std::uint32_t>(packet.size());
  binding.port->transmit(frame);
  return true;
}

void PacketIo::send_held() {
  faults_.take_due(FaultDirection::kSent, [&](PortId port, std::span<std::byte> packet) {
    PortBinding& binding = *ports_[port.value];
    if (binding.is_served() && !send_copy(binding, packet)) faults_.lack_room();
  });
}

PacketIo::Arrival PacketIo::meet_faults(PortBinding& binding, const port::Frame& frame,
                                        wire::ParsedFrame& parsed) {
  const FaultPassage passage{.tenant = addresses_.owner(parsed.destination, binding.id),
                             .port = binding.id,
                             .qpn = parsed.headers.destination,
                             .direction = FaultDirection::kReceived,
                             .ecn_capable = parsed.is_ecn_capable()};
  const Faults::Fate fate = faults_.decide(passage);
  if (fate.drop) {
    if (captures_.on())
      captures_.received(binding, passage.tenant, parsed, injected_remark(FaultKind::kDrop));
    return Arrival::kNotNow;
  }
  if (fate.damager != nullptr) {
    const auto at = static_cast<std::size_t>(parsed.datagram.data() - frame.data);
    Faults::corrupt(fate, {frame.data + at, parsed.datagram.size()});
    // The caller does not check the ICRC: where part of it is spent on a hidden identification,
    // some damaged packets would pass.
    return Arrival::kDamaged;
  }
  if (fate.mark) parsed.traffic_class |= wire::kEcnCongested;
  if ((fate.duplicate || fate.holder != nullptr) && keep(passage, fate, parsed))
    return Arrival::kNotNow;
  faults_.passed(passage, passage.qpn);
  return Arrival::kAsItCame;
}

/// Repeats the packet or holds it back, as `fate` says. True: it is held back.
bool PacketIo::keep(const FaultPassage& passage, const Faults::Fate& fate,
                    const wire::ParsedFrame& parsed) {
  std::array<std::byte, wire::kMaxNetworkHeaders> headers;
  const std::size_t link = wire::encode_ethernet(parsed.ethernet, headers.data());
  const std::span<std::byte> head = std::span(headers).first(link + parsed.network.size());
  wire::write_network(parsed, head.subspan(link));
  if (fate.mark) port::mark_congested(head);
  const HeldPackets::Part parts[] = {head, parsed.datagram};
  if (fate.duplicate) faults_.repeat(passage, parts);
  return fate.holder != nullptr && faults_.hold(fate, passage, passage.qpn, parts);
}

}  // namespace softhca::engine
