// SPDX-License-Identifier: Apache-2.0

// Sends the datagrams of UD queue pairs: to the wire, to a queue pair of this daemon in one copy,
// or to a multicast group.
#pragma once

#include "daemon/engine/addresses/addressing.hpp"
#include "daemon/engine/datagrams/shared_qps_fairness.hpp"
#include "daemon/engine/queue_pairs/qp_environment.hpp"

namespace softhca::engine {

class UdSender {
 public:
  UdSender(const TransportParts& parts, const Addressing& addressing, SharedQps& services)
      : parts_(parts),
        addresses_(addressing.local),
        address_handles_(addressing.handles),
        multicast_(addressing.multicast),
        services_(services) {}

  /// Sends what the queue pair has, up to the engine's budget. True if it could go on right away.
  bool transmit(QueuePair& qp, transport::Ud& ud);

 private:
  bool send(QueuePair& qp, const transport::Request& request);
  bool send_to_wire(QueuePair& qp, const transport::Request& request, Qpn to, Route& route,
                    std::uint32_t qkey);
  bool deliver(QueuePair& qp, const transport::Request& request, const AddressPath& path,
               std::uint32_t qkey);
  bool deliver_in_steps(QueuePair& qp, const transport::Request& request, const AddressPath& path,
                        std::uint32_t qkey);
  Verdict offer(QueuePair& qp, QueuePair& peer, const transport::Request& request,
                const AddressPath& path, std::uint32_t qkey);
  bool is_taken(const QueuePair& qp, const QueuePair& peer) const;
  Verdict receive(QueuePair& qp, QueuePair& peer, const transport::Request& request,
                  const AddressPath& path, std::span<const std::byte> read);
  // ud_sender_multicast.cpp
  bool send_to_group(QueuePair& qp, const transport::Request& request, AddressHandle& ah,
                     std::uint32_t qkey);
  Verdict deliver_to_members(QueuePair& qp, const transport::Request& request,
                             const AddressPath& path, std::uint32_t qkey);
  // ud_sender_capture.cpp: as the functions without _shown, and reports to captures
  const Counter& lost_datagrams() const { return parts_.faults.injected(FaultKind::kDrop); }
  void deliver_shown(QueuePair& qp, const transport::Request& request, const AddressPath& path,
                     std::uint32_t qkey);
  Verdict offer_shown(QueuePair& qp, QueuePair& member, const transport::Request& request,
                      const AddressPath& path, std::uint32_t qkey);
  std::span<const std::byte> make_packet(const QueuePair& qp, const transport::Request& request,
                                         const AddressPath& path, Qpn to, std::uint32_t qkey);
  void show(const QueuePair& qp, const Tenant* to, const AddressPath& path,
            std::span<const std::byte> packet, const DropWatch& watch);

  const TransportParts& parts_;
  const LocalAddresses& addresses_;
  const AddressHandles& address_handles_;
  const Multicast& multicast_;
  SharedQps& services_;
};

}  // namespace softhca::engine
