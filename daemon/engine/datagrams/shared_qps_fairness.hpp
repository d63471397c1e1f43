// SPDX-License-Identifier: Apache-2.0

// Queue pairs that several clients share (mechanism E6), above all that of general services: hands
// received datagrams to their receive pools, and sends those of the clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/engine/addresses/address_handles.hpp"
#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/session_registry.hpp"
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/packets/packet_io.hpp"
#include "daemon/engine/queue_pairs/qp_lifecycle.hpp"

namespace softhca::engine {

class SharedQps {
 public:
  SharedQps(const CommandCore& core, MemoryAccess& memory, PacketIo& packets,
            AddressHandles& address_handles, CompletionQueues& completion_queues,
            SessionRegistry& sessions, QpLifecycle& lifecycle)
      : clock_(core.clock),
        cpu_(core.cpu),
        commands_(core.commands),
        pcbs_(core.pcbs),
        scheduler_(core.scheduler),
        arbitrator_(core.arbitrator),
        memory_(memory),
        packets_(packets),
        address_handles_(address_handles),
        completion_queues_(completion_queues),
        sessions_(sessions),
        lifecycle_(lifecycle) {}

  /// Opens the queue pair, which takes no place of a tenant. False: there are too many.
  bool open(SharedQp& service);
  void close(SharedQp& service);

  // --- of a poll step
  /// Takes back buffers that clients have released. Returns how many.
  std::size_t take_back_buffers();
  /// Sends the datagrams of the clients. Returns how much was done.
  std::size_t run();
  /// Notifies the clients of datagrams that have come, once in a poll step.
  void announce();
  bool has_work() const;
  /// Returns when a neighbour is asked for again.
  Time next_deadline() const;

  // --- receiving
  /// Receives a packet for a shared queue pair, sent to an address of `tenant`.
  void receive(QueuePair& qp, const Tenant& tenant, const wire::ParsedFrame& frame, PortId port);
  /// Does the same for a datagram from a queue pair of this daemon. Returns how it ends for its
  /// sender.
  Verdict deliver(QueuePair& from, QueuePair& to, const Tenant& tenant,
                  const transport::Request& request, const AddressPath& path);

 private:
  std::size_t take_sends(SharedQp& service);
  std::size_t try_waiting(SharedQp& service);
  static bool has_place(const SharedQp& service, const Datagram& datagram);
  bool post(SharedQp& service, const Datagram& datagram);
  std::optional<std::uint32_t> admit(SharedQp& service, const Tenant& tenant,
                                     std::span<const std::byte> start, std::size_t length,
                                     const Gid& source);
  bool is_within_share(SharedQp& service, bool from_busy_source);

  const StepClock& clock_;
  CpuScheduler& cpu_;
  CommandStore& commands_;
  collect::PcbPool& pcbs_;
  schedule::SendQueueScheduler& scheduler_;
  schedule::KickArbitrator& arbitrator_;
  MemoryAccess& memory_;
  PacketIo& packets_;
  AddressHandles& address_handles_;
  CompletionQueues& completion_queues_;
  SessionRegistry& sessions_;
  QpLifecycle& lifecycle_;
  std::vector<SharedQp*> services_;
};

}  // namespace softhca::engine
