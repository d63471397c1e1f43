// SPDX-License-Identifier: Apache-2.0

// Congestion control of datagrams. A tenant's datagrams to a peer are a flow (ud_flow.hpp) once
// there are many of them. The engine then asks the adapter of the peer how many have come, by a
// probe that takes the same path as the datagrams. It answers the probes of other adapters
// likewise. Only datagrams to a single address, through a port, are a flow.
//
// Both sides keep a small table for each tenant, allocated with the tenant. Datagrams that find it
// full go without this control.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "daemon/engine/packets/packet_io.hpp"
#include "daemon/engine/queue_pairs/flow_table.hpp"
#include "daemon/roce/transport/ud_flow.hpp"
#include "daemon/roce/wire/ud_probe.hpp"

namespace softhca::engine {

/// Datagrams of a tenant to a peer.
struct DatagramPath {
  FlowKey way;
  Time used{};          ///< when a datagram last went
  Time counted_from{};  ///< since then `bytes` are counted, to see whether they are many
  std::uint64_t bytes = 0;
  bool followed = false;  ///< they were many: the path is a flow
  transport::UdFlow flow;
};

class UdCongestion {
 public:
  UdCongestion(const StepClock& clock, const LocalAddresses& addresses, CpuScheduler& cpu,
               PacketIo& packets, std::uint16_t tenants)
      : clock_(clock), addresses_(addresses), cpu_(cpu), packets_(packets), tenants_(tenants) {}

  void add(Tenant& tenant);
  void remove(Tenant& tenant);
  /// Takes effect with the next datagram. Switching the control on or off forgets all paths.
  void configure(const CongestionParameters& congestion, const FlightParameters& flight);

  // --- sending
  /// Returns the path of a datagram of the queue pair to queue pair `to` of its peer; null: it has
  /// none.
  DatagramPath* path_of(QueuePair& qp, Qpn to, Route& route);
  /// Makes datagrams of the route ECN-capable if their path reacts to marks, and not otherwise.
  static void mark(Route& route, const DatagramPath* path);
  /// True if a datagram may go. False if the port is full, or the queue pair waits for the pace of
  /// the path.
  bool may_send(QueuePair& qp, Route& route, DatagramPath& path);
  /// Counts a datagram that has gone, with `bytes` of payload.
  void sent(QueuePair& qp, DatagramPath& path, std::uint32_t bytes);
  /// Handles a congestion notification for the queue pair. False: no path reacts.
  bool notified(QueuePair& qp, const wire::ParsedFrame& frame);

  // --- receiving
  /// Handles a packet for queue pair 1. True if it was a probe or an answer.
  bool receive(PortBinding& binding, const wire::ParsedFrame& frame);
  /// True if a peer wants to know how many datagrams come.
  bool is_asked() const { return clock_.now < asked_until_; }
  /// Counts a datagram that has come to a port, if its peer sends probes.
  void arrived(const PortBinding& binding, const wire::ParsedFrame& frame);

 private:
  /// Datagrams of a peer to a tenant.
  struct Arrivals {
    FlowKey way;
    std::uint32_t since = 0;
    Time asked{};
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
  };
  struct OfTenant {
    OfTenant(Tenant& owner, std::uint64_t seed) : tenant(owner), paths(seed), arrivals(seed) {}
    Tenant& tenant;
    FlowTable<DatagramPath> paths;
    FlowTable<Arrivals> arrivals;
  };

  OfTenant* of(const Tenant& tenant) { return tenants_[tenant.id.value].get(); }
  void forget(Tenant& tenant, DatagramPath& path, const FlowKey& way);
  bool ask(QueuePair& qp, Route& route, DatagramPath& path);
  bool take_answer(Tenant& tenant, const wire::ParsedFrame& frame,
                   const wire::DatagramAnswer& answer);
  void reply(PortBinding& binding, const wire::ParsedFrame& frame, Tenant& tenant,
             const wire::DatagramQuestion& question);
  std::uint64_t random();
  template <class Change>
  bool change(Tenant& tenant, DatagramPath& path, Change&& change);

  const StepClock& clock_;
  const LocalAddresses& addresses_;
  CpuScheduler& cpu_;
  PacketIo& packets_;
  bool on_ = true;
  transport::UdFlowRules rules_;
  std::random_device random_;
  std::vector<std::unique_ptr<OfTenant>> tenants_;  ///< by number
  std::uint32_t since_ = 0;                         ///< the last number that a peer was given
  Time asked_until_{};
};

}  // namespace softhca::engine
