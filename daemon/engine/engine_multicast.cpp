// Datagrams to multicast groups and for their members.
#include "daemon/engine/engine.hpp"

namespace softhca::engine {

/// False: the port is full; nothing happened.
bool Engine::run_multicast(QueuePair& qp, const transport::Request& request, AddressHandle& ah,
                           std::uint32_t qkey) {
  QpEnvironment env(parts_, qp, ah.route);
  Verdict verdict =
      std::get<transport::Ud>(qp.transport).requester().send(env, request, kMulticastQpn, qkey);
  if (verdict == Verdict::kBusy) return false;
  if (verdict == Verdict::kOk) verdict = deliver_to_members(qp, request, ah.route.path, qkey);
  complete_command(qp, request.pcb, verdict);
  if (verdict != Verdict::kOk) cpu_.fail_later(qp, name_of(verdict));
  return true;
}

/// How the datagram ends for its sender.
Verdict Engine::deliver_to_members(QueuePair& qp, const transport::Request& request,
                                   const AddressPath& path, std::uint32_t qkey) {
  Verdict verdict = Verdict::kOk;
  multicast_.for_each_inside(path.destination, path.port, [&](QueuePair& member) {
    verdict = offer_datagram(qp, member, request, path, qkey);
    return verdict == Verdict::kOk;
  });
  return verdict;
}

/// A copy for each member that is on the network of the port.
void Engine::receive_multicast(PortBinding& binding, const wire::ParsedFrame& frame) {
  if (wire::opcode_info(frame.headers.opcode).transport != wire::Transport::kUd)
    return binding.drops.add(FrameDrop::kWrongTransport);
  if (!is_of_partition(frame)) return binding.drops.add(FrameDrop::kPartitionKey);
  bool delivered = false;
  multicast_.for_each_on(frame.destination, binding.id, frame.source, [&](QueuePair& member) {
    if (frame.is_congested()) congestion_.notify_sender(binding, member, frame);
    receive_packet(member, frame);
    delivered = true;
  });
  if (!delivered) binding.drops.add(FrameDrop::kNoGroupMember);
}

}  // namespace softhca::engine
