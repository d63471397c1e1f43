// Datagrams that slow down where they are lost. A tenant's datagrams to a peer are a flow
// (transport/datagram_flow) once there are many of them: the adapter of the peer is asked how many
// have come, by a question that takes the way of the datagrams, and adapters that ask us are
// answered likewise. Only what goes to one address through a port is a flow.
//
// Both sides keep a small table of each tenant, allocated with it. Where it is full, datagrams go
// as if there was no such thing.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "daemon/engine/datagram_table.hpp"
#include "daemon/engine/packet_io.hpp"
#include "daemon/transport/datagram_flow.hpp"
#include "daemon/wire/datagram_probe.hpp"

namespace softhca::engine {

/// Datagrams of a tenant to a peer.
struct DatagramPath {
  DatagramWay way;
  Time used{};          ///< last
  Time counted_from{};  ///< bytes are counted since then, to see whether they are many
  std::uint64_t bytes = 0;
  bool followed = false;  ///< they were many: it is a flow
  transport::DatagramFlow flow;
};

class DatagramControl {
 public:
  DatagramControl(const StepClock& clock, const LocalAddresses& addresses, CpuScheduler& cpu,
                  PacketIo& packets, std::uint16_t tenants)
      : clock_(clock), addresses_(addresses), cpu_(cpu), packets_(packets), tenants_(tenants) {}

  void add(Tenant& tenant);
  void remove(Tenant& tenant);
  /// Takes effect with the next datagram. What is known of paths is forgotten when it is switched
  /// on or off.
  void configure(const CongestionParameters& congestion, const FlightParameters& flight);

  // --- sending
  /// The path of a datagram of the queue pair to that one of its peer; null: it has none.
  DatagramPath* path_of(QueuePair& qp, Qpn to, Route& route);
  /// Whether datagrams of the route are ECN-capable may change: they are where somebody reacts.
  static void mark(Route& route, const DatagramPath* path);
  /// False: the port is full, or the queue pair waits for the pace of the path.
  bool may_send(QueuePair& qp, Route& route, DatagramPath& path);
  /// A datagram with so many bytes of payload has gone.
  void sent(QueuePair& qp, DatagramPath& path, std::uint32_t bytes);
  /// A packet tells the queue pair of a mark. False: nothing reacts.
  bool notified(QueuePair& qp, const wire::ParsedFrame& frame);

  // --- receiving
  /// A packet for queue pair 1. True: it was a question or an answer.
  bool receive(PortBinding& binding, const wire::ParsedFrame& frame);
  /// Does anybody want to know how many datagrams come?
  bool is_asked() const { return clock_.now < asked_until_; }
  /// A datagram has come to a port.
  void arrived(const PortBinding& binding, const wire::ParsedFrame& frame);

 private:
  /// Datagrams of a peer to a tenant.
  struct Arrivals {
    DatagramWay way;
    std::uint32_t since = 0;
    Time asked{};
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
  };
  struct OfTenant {
    OfTenant(Tenant& owner, std::uint64_t seed) : tenant(owner), paths(seed), arrivals(seed) {}
    Tenant& tenant;
    DatagramTable<DatagramPath> paths;
    DatagramTable<Arrivals> arrivals;
  };

  OfTenant* of(const Tenant& tenant) { return tenants_[tenant.id.value].get(); }
  void forget(Tenant& tenant, DatagramPath& path, const DatagramWay& way);
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
  transport::DatagramRules rules_;
  std::random_device random_;
  std::vector<std::unique_ptr<OfTenant>> tenants_;  ///< by number
  std::uint32_t since_ = 0;                         ///< the last that an asker was given
  Time asked_until_{};
};

}  // namespace softhca::engine
