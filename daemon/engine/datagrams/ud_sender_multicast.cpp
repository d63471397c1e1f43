// SPDX-License-Identifier: Apache-2.0

// Datagrams to multicast groups.
#include "daemon/engine/datagrams/ud_sender.hpp"

namespace softhca::engine {

/// Sends a datagram to a group. False: the port is full; nothing happened.
bool UdSender::send_to_group(QueuePair& qp, const transport::Request& request, AddressHandle& ah,
                             std::uint32_t qkey) {
  QpEnvironment env(parts_, qp, ah.route);
  Verdict verdict =
      std::get<transport::Ud>(qp.transport).requester().send(env, request, kMulticastQpn, qkey);
  if (verdict == Verdict::kBusy) return false;
  if (verdict == Verdict::kOk) verdict = deliver_to_members(qp, request, ah.route.path, qkey);
  parts_.command_sink.complete_command(qp, request.pcb, verdict);
  if (verdict != Verdict::kOk) parts_.cpu.fail_later(qp, failure_of(verdict));
  return true;
}

/// Offers a datagram to the members that it reaches inside the daemon. Returns how it ends for its
/// sender.
Verdict UdSender::deliver_to_members(QueuePair& qp, const transport::Request& request,
                                     const AddressPath& path, std::uint32_t qkey) {
  Verdict verdict = Verdict::kOk;
  multicast_.for_each_inside(path.destination, path.port, [&](QueuePair& member) {
    verdict = parts_.captures.on() ? offer_shown(qp, member, request, path, qkey)
                                   : offer(qp, member, request, path, qkey);
    return verdict == Verdict::kOk;
  });
  return verdict;
}

}  // namespace softhca::engine
