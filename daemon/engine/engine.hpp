// SPDX-License-Identifier: Apache-2.0

// One engine: everything that happens to commands and packets, in one poll step. It owns no
// thread and reads no clock; the worker (worker.hpp) or a simulation calls poll().
//
// Each part is a class that owns its state. In the order of a command:
//   session_registry      adds and removes sessions.
//   command_intake        VCBs and doorbells -> PCBs -> kick; send queue mode.
//   dispatch              doorbells -> PCBs, dedicated ones last -> kick; the next start.
//   rate_control          rates of tenants, levels and queue pairs, and what waits for them.
//   peer_rates            rates of what peers send to them and read from them; rate_gates.
//   slow_memory           bounds the waits of the engine for memory of a tenant.
//   memory_waits          queue pairs that wait for memory that a process reaches (memory_proxy).
//   tvl_assignment        assigns TVLs to queue pairs; level_assignment: levels.
//   guarantee_lending     lends guarantees that are idle.
//   command_store         commands in PCBs, the credits they hold, and their way back.
//   command_refusals      why commands fail; memory_refusals: why memory may not be used.
//   command_execution     begins commands (command_request, command_windows), completes them.
//   cpu_scheduler         order and length of turns; costs.hpp: the cost of each kind of work.
//   work_clock            measures the time that the engine works.
//   transport_driver      queue pairs in their turns, packets for them, their timers.
//   qp_environment        all this as a transport state machine sees it.
//   local_link            messages between queue pairs of this daemon, in one copy.
//   ud_sender             datagrams of UD queue pairs, also to groups.
//   shared_qps            queue pairs that several clients share, such as that of general services.
//   memory_access         the memory that commands, receives and remote keys name.
//   packet_io             frames in and out; payload_reader: their payloads.
//   peer_authentication   checks that packets are authentic; peer_table: hosts that have a key.
//   demux                 finds the queue pairs of received packets.
//   captures              packets for captures; capture_ring, capture_remarks.
//   captured_link         the packets for captures of messages inside the daemon.
//   faults                faults that the operator injects; held_packets; packet_faults.
//   faulty_link           faults inside the daemon.
//   congestion_control    congestion reported to peers and by them; ud_congestion: of datagrams.
//   receive_queues        drawing receives; shared receive queues and their provisioning; XRC.
//   completion_queues     completions written to them, and events of these.
//   async_events          other events to processes; failed_sessions.
//   event_notifier        the thread that sends some of these events.
//   wait_census           what commands wait for; guarantee_monitor: guarantees that are not kept.
//   qp_history            the history of queue pairs that had trouble.
//   durable_state         what the next engine takes over; qp_durable: of a queue pair.
//   qp_table, qp_lifecycle, qp_stall, time_wait   queue pairs, their states, their TIME-WAIT.
//   local_addresses, address_handles, multicast   addresses and their owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/engine/addresses/addressing.hpp"
#include "daemon/engine/commands/command_core.hpp"
#include "daemon/engine/commands/command_intake.hpp"
#include "daemon/engine/commands/dispatch.hpp"
#include "daemon/engine/commands/guarantee_lending.hpp"
#include "daemon/engine/commands/overflow_places.hpp"
#include "daemon/engine/commands/rate_control.hpp"
#include "daemon/engine/commands/session_registry.hpp"
#include "daemon/engine/commands/tvl_assignment.hpp"
#include "daemon/engine/commands/wait_census.hpp"
#include "daemon/engine/datagrams/shared_qps_fairness.hpp"
#include "daemon/engine/datagrams/ud_sender.hpp"
#include "daemon/engine/demux.hpp"
#include "daemon/engine/events/async_events.hpp"
#include "daemon/engine/limits.hpp"
#include "daemon/engine/memory/memory_access.hpp"
#include "daemon/engine/queue_pairs/command_execution.hpp"
#include "daemon/engine/queue_pairs/qp_environment.hpp"
#include "daemon/engine/queue_pairs/qp_lifecycle.hpp"
#include "daemon/engine/queue_pairs/wire.hpp"
#include "daemon/engine/receive/completion_queues.hpp"
#include "daemon/engine/receive/payload_reader.hpp"
#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/engine/records/durable_state.hpp"
#include "daemon/engine/records/event_log.hpp"
#include "daemon/engine/records/qp_table.hpp"
#include "daemon/engine/transport_driver.hpp"
#include "daemon/engine/turns/cpu_scheduler.hpp"
#include "daemon/engine/turns/peer_rates.hpp"
#include "daemon/engine/turns/slow_memory.hpp"
#include "daemon/engine/view.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/kick_arbitrator.hpp"
#include "daemon/qos/schedule/send_queue_scheduler.hpp"
#include "daemon/roce/transport/congestion.hpp"

namespace softhca::engine {

class Engine {
 public:
  /// `memory`: for the state that the next engine takes over (DurableState), or the memory of the
  /// earlier engine; empty: no engine takes it over. An engine on the memory of an earlier one does
  /// nothing in poll() before the request EndRestoring.
  Engine(const EngineLimits& limits, EventSink& events, std::span<std::byte> memory = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- set-up: before the first poll, or on the engine's thread between polls
  collect::PcbPool& pcbs() { return queues_.pcbs; }
  const collect::PcbPool& pcbs() const { return queues_.pcbs; }
  schedule::TvlTable& tvls() { return queues_.tvls; }
  const schedule::TvlTable& tvls() const { return queues_.tvls; }
  const schedule::KickArbitrator& arbitrator() const { return queues_.arbitrator; }
  const schedule::SendQueueScheduler& scheduler() const { return queues_.scheduler; }
  CommandIntake& intake() { return intake_; }
  GuaranteeLending& lending() { return lending_; }
  AsyncEvents& async_events() { return events_.async; }
  CompletionQueues& completion_queues() { return events_.completion; }
  CpuScheduler& cpu() { return cpu_; }
  ReceiveQueues& receive_queues() { return receive_queues_; }
  LocalAddresses& addresses() { return addressing_.local; }
  AddressHandles& address_handles() { return addressing_.handles; }
  Multicast& multicast() { return addressing_.multicast; }
  memory::KeyTable& keys() { return memory_.keys(); }
  MemoryAccess& memory() { return memory_; }
  TvlAssignment& tvl_assignment() { return tvl_assignment_; }
  void add_tenant(Tenant& tenant);
  /// Adds a level of a tenant under its class number. To be called before the level has a session.
  void add_level(const Level& level);
  /// Sets thresholds and policy; the number of entries stays.
  void set_doorbells(DoorbellConfig config) {
    config.entries = queues_.scheduler.config().entries;
    queues_.scheduler.configure(config);
  }
  /// Takes effect with the next packet; the marking of packets, within 100 ms.
  void set_congestion(const CongestionParameters& parameters, const FlightParameters& flight = {}) {
    wire_.congestion_parameters = parameters;
    wire_.datagrams.configure(parameters, flight);
  }
  RateControl& rates() { return rates_.sent; }
  PeerRates& peer_rates() { return rates_.peers; }
  SlowMemory& slow_memory() { return rates_.memory; }
  /// What outlives the engine, and whether the engine serves.
  struct Durable {
    Durable(const EngineLimits& limits, std::span<std::byte> memory)
        : state(durable_sizes(limits), memory),
          queue_pairs(state, limits.qpn_seed),
          is_restoring(state.is_inherited()) {}
    bool serves() const { return !is_restoring && !is_retired; }

    DurableState state;
    QpTable queue_pairs;
    bool is_restoring;  ///< objects of the earlier engine may still be restored
    bool is_retired = false;
  };
  Durable& durable() { return durable_; }
  /// REQUIRES: the tenant has no sessions.
  void remove_tenant(Tenant& tenant);
  PacketIo& packets() { return wire_.packets; }
  const std::vector<std::unique_ptr<PortBinding>>& ports() const { return wire_.packets.ports(); }

  SessionRegistry& sessions() { return sessions_; }
  QpLifecycle& queue_pairs() { return lifecycle_; }
  SharedQps& datagram_services() { return datagram_services_; }
  /// The events that the operator should know of; to be read on the engine's thread.
  const EventLog& event_log() const { return events_.log; }

  // --- the poll step
  /// Runs a poll step. True if there was anything to do.
  bool poll(Time now);
  /// Returns a time before which nothing happens unless a tenant posts or a frame comes.
  Time next_deadline() const;
  /// True if something waits that only polling can move on, and that therefore forbids sleep.
  bool has_runnable() const {
    if (!durable_.serves()) return false;
    return cpu_.has_work() || intake_.has_work() || queues_.scheduler.has_work() ||
           queues_.arbitrator.has_work() || queues_.commands.ahead().has_work() ||
           datagram_services_.has_work() || events_.async.has_work() || memory_.waits().has_work();
  }

  StepClock& clock() { return clock_; }

  EngineView view();

 private:
  void finish_batch();

  /// Events on their way to processes and the operator.
  struct Events {
    Events(EventSink& sink, const StepClock& clock, CpuScheduler& cpu, std::uint32_t queue_pairs,
           std::uint16_t tenants)
        : log(clock, tenants),
          history(clock, queue_pairs),
          async(sink, clock, cpu, tenants),
          completion(sink, async, clock, cpu) {}
    EventLog log;
    QpHistory history;
    AsyncEvents async;
    CompletionQueues completion;
  };
  /// The queues of commands, and what they wait for there.
  struct CommandQueues {
    CommandQueues(const EngineLimits& limits, const StepClock& clock, QpTable& queue_pairs,
                  CpuScheduler& cpu, RateControl& rates);
    collect::PcbPool pcbs;
    OverflowPlaces overflow_places;
    schedule::SendQueueScheduler scheduler;
    schedule::TvlTable tvls;
    schedule::KickArbitrator arbitrator;
    CommandStore commands;
    const CommandCore core;
  };

  struct Rates {
    RateControl sent;
    PeerRates peers;
    SlowMemory memory;
  };

  StepClock clock_;
  Durable durable_;
  CpuScheduler cpu_;
  Events events_;
  Addressing addressing_;
  Rates rates_;
  CommandQueues queues_;
  MemoryAccess memory_;
  CommandIntake intake_;
  Dispatch dispatch_;
  WaitCensus waits_;
  GuaranteeLending lending_;
  TvlAssignment tvl_assignment_;
  ReceiveQueues receive_queues_;
  PayloadReader payloads_;
  Wire wire_;
  TransportParts parts_;
  CommandRefusals refusals_;
  CommandExecution execution_;
  QpLifecycle lifecycle_;
  SessionRegistry sessions_;
  SharedQps datagram_services_;
  UdSender ud_sender_;
  TransportDriver transports_;
  Demux demux_;
};

}  // namespace softhca::engine
