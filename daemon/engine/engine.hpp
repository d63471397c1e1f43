// One engine: everything that happens to commands and packets, in one poll step. It owns no
// thread and reads no clock; the worker (worker.hpp) or a simulation calls poll().
//
// The files follow the way of a command:
//   engine.cpp            the poll step; installing and removing objects
//   ingress.cpp           sessions: VCBs and doorbells -> PCBs -> kick; send queue mode
//   dispatch.cpp          doorbells -> dedicated PCBs -> kick; the arbitrator's next command
//   engine_stall.cpp      queue pairs that cannot go on: their commands go back
//   rate_control.cpp      tenants held back by their rates
//   tvl_assignment.cpp    which TVLs queue pairs take
//   command_store.cpp     commands in PCBs, the credits they hold, and their way back
//   engine_start.cpp      validating a command and handing it to its transport
//   engine_transport.cpp  driving requesters, responders and their timers
//   local_link.cpp        messages between queue pairs of this daemon, in one copy
//   engine_datagrams.cpp  datagrams on their ways
//   packet_io.cpp         frames in and out, link addresses; payload_reader.hpp: what goes in them
//   engine_demux.cpp      packets that have come: whose they are
//   congestion_control.cpp  congestion told to peers and by them
//   async_events.cpp, completion_events.cpp  events on their way to processes
//   qp_table.cpp          queue pairs by number and slot
//   local_addresses.cpp, address_handles.cpp, multicast.cpp  addresses, and who is behind them
//   receive_queues.cpp    drawing receives; shared receive queues and their provisioning; XRC
//   engine_complete.cpp   the end of commands: their completions
//   engine_states.cpp     queue pair state changes, errors, flushing
//   guarantee_lending.cpp guarantees lent while they are idle
//   memory_access.cpp     the memory that commands, receives and remote keys name
//   cpu_scheduler.cpp     whose turn it is, and for how long; costs.hpp: what counts as how much
//   engine_windows.cpp    memory windows: bind, invalidate
//   engine_xrc.cpp        XRC targets: who holds them
//   engine_multicast.cpp  datagrams to multicast groups and for their members
//   engine_datagram_service.cpp  queue pairs that several clients share, that of general services
//   environment.cpp       what a transport state machine sees of all this
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/base/congestion.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/timer_wheel.hpp"
#include "daemon/collect/pcb_pool.hpp"
#include "daemon/engine/address_handles.hpp"
#include "daemon/engine/async_events.hpp"
#include "daemon/engine/completion_events.hpp"
#include "daemon/engine/congestion_control.hpp"
#include "daemon/engine/counters.hpp"
#include "daemon/engine/cpu_scheduler.hpp"
#include "daemon/engine/dispatch.hpp"
#include "daemon/engine/environment.hpp"
#include "daemon/engine/event_log.hpp"
#include "daemon/engine/guarantee_lending.hpp"
#include "daemon/engine/ingress.hpp"
#include "daemon/engine/local_addresses.hpp"
#include "daemon/engine/memory_access.hpp"
#include "daemon/engine/multicast.hpp"
#include "daemon/engine/objects.hpp"
#include "daemon/engine/overflow_places.hpp"
#include "daemon/engine/qp_table.hpp"
#include "daemon/engine/rate_control.hpp"
#include "daemon/engine/receive_queues.hpp"
#include "daemon/engine/time_wait.hpp"
#include "daemon/engine/tvl_assignment.hpp"
#include "daemon/schedule/kick_arbitrator.hpp"
#include "daemon/schedule/run_queue.hpp"
#include "daemon/schedule/send_queue_scheduler.hpp"

namespace softhca::engine {

struct Datagram;

struct EngineLimits {
  std::uint32_t vcbs = 4096;
  std::uint32_t pcbs = 8192;  ///< without the dedicated ones
  std::uint32_t dedicated_pcbs = 1024;
  std::uint16_t tenants = 64;
  std::uint16_t levels = 192;  ///< of all tenants
  std::uint16_t tvls = 256;
  std::uint32_t execution_credits = 1024;
  std::uint32_t completion_credits = 8192;
  std::uint32_t queue_pairs = 8192;  ///< rounded up to a power of two
  std::uint32_t memory_regions = 65536;
  std::uint32_t memory_windows = 16384;
  DoorbellConfig doorbells = {};
};

class Engine final : private CommandSink {
 public:
  Engine(const EngineLimits& limits, EventSink& events);
  ~Engine();

  // --- set-up: before the first poll, or on the engine's thread between polls
  collect::PcbPool& pcbs() { return pcbs_; }
  const collect::PcbPool& pcbs() const { return pcbs_; }
  schedule::TvlTable& tvls() { return tvls_; }
  const schedule::TvlTable& tvls() const { return tvls_; }
  const schedule::KickArbitrator& arbitrator() const { return arbitrator_; }
  const schedule::SendQueueScheduler& scheduler() const { return scheduler_; }
  /// Of a tenant, or of one of its levels (null: of what is not divided into levels).
  const schedule::DoorbellCounters& doorbells(const Tenant& tenant, const Level* level) const {
    return scheduler_.counters(level == nullptr ? tenant.qos_class : level->qos_class);
  }
  Ingress& ingress() { return ingress_; }
  GuaranteeLending& lending() { return lending_; }
  AsyncEvents& async_events() { return async_events_; }
  CompletionEvents& completion_events() { return completion_events_; }
  CpuScheduler& cpu() { return cpu_; }
  ReceiveQueues& receive_queues() { return receive_queues_; }
  LocalAddresses& addresses() { return addresses_; }
  AddressHandles& address_handles() { return address_handles_; }
  Multicast& multicast() { return multicast_; }
  memory::KeyTable& keys() { return memory_.keys(); }
  memory::WindowTable& windows() { return memory_.windows(); }
  TvlAssignment& tvl_assignment() { return tvl_assignment_; }
  void add_tenant(Tenant& tenant);
  /// A level of a tenant, which has its number; before the first session of it.
  void add_level(const Level& level);
  /// Thresholds and policy; the number of entries stays.
  void set_doorbells(DoorbellConfig config) {
    config.entries = scheduler_.config().entries;
    scheduler_.configure(config);
  }
  /// Takes effect with the next packet; how packets are marked, within 100 ms.
  void set_congestion(const CongestionParameters& parameters) {
    congestion_parameters_ = parameters;
  }
  RateControl& rates() { return rates_; }
  /// REQUIRES: it has no sessions.
  void remove_tenant(Tenant& tenant);
  PacketIo& packets() { return packets_; }
  const std::vector<std::unique_ptr<PortBinding>>& ports() const { return packets_.ports(); }

  void install(Session& session);
  void remove(Session& session);
  /// Gives the pair its number and slot; false: no slot is free.
  bool install(QueuePair& qp);
  /// Discards its commands without completions. The object may be freed afterwards.
  void remove(QueuePair& qp);
  /// An XRC target is held open by one more process, which is told of its events, too.
  void share(QueuePair& qp, const QpHolder& holder);
  /// One of those lets go. REQUIRES: another one stays.
  void unshare(QueuePair& qp, const QpHolder& holder);
  /// What happened that the operator should know of; on the engine's thread.
  const EventLog& event_log() const { return event_log_; }
  /// Opens its queue pair, which takes the place of none of a tenant. False: there are too many.
  bool open(DatagramService& service);
  void close(DatagramService& service);

  /// State changes of modify_qp; attributes have been checked and stored by the caller.
  /// `send_sequence`: number of the next command; what was posted before is void, taken in or not.
  void reset(QueuePair& qp, std::uint32_t send_sequence);
  void enter_ready_to_receive(QueuePair& qp, Psn rq_psn);
  void enter_ready_to_send(QueuePair& qp, Psn sq_psn);
  void apply_attributes(QueuePair& qp);
  void enter_drain(QueuePair& qp, bool notify);
  void enter_error(QueuePair& qp);

  // --- the poll step
  /// True when there was anything to do.
  bool poll(Time now);
  /// Nothing will happen before this time unless a tenant posts or a frame comes.
  Time next_deadline() const;
  /// Is anything waiting that only polling can move on (and which therefore forbids sleep)?
  bool has_runnable() const {
    return cpu_.has_work() || ingress_.has_work() || scheduler_.has_work() ||
           arbitrator_.has_work() || clients_wait();
  }

  Time now() const { return clock_.now; }
  QueuePair* find(Qpn qpn) const { return queue_pairs_.find(qpn); }

 private:
  // engine.cpp
  void enter(QueuePair& qp);
  void finish_batch();
  void expire(QueuePair& qp);
  void remember(QueuePair& qp);

  // engine_stall.cpp
  void give_back(QueuePair& qp, bool started);
  void stall(QueuePair& qp);
  void resume(QueuePair& qp);

  // engine_start.cpp
  std::size_t start_commands();
  void start(PcbId pcb);
  void count(QueuePair& qp, PcbId pcb);
  void dispatch(QueuePair& qp, PcbId pcb);
  void release_held(QueuePair& qp);
  Verdict build_request(const QueuePair& qp, PcbId pcb, transport::Request& out);
  void fail_command(QueuePair& qp, PcbId pcb, Verdict verdict);

  // engine_transport.cpp
  std::size_t run_ready();
  bool run(QueuePair& qp);
  bool transmit(QueuePair& qp);
  void settle(QueuePair& qp);
  void receive_packet(QueuePair& qp, const wire::ParsedFrame& frame);

  // engine_datagrams.cpp
  bool transmit_datagrams(QueuePair& qp, transport::Ud& ud);
  bool run_datagram(QueuePair& qp, const transport::Request& request);
  void deliver_datagram(QueuePair& qp, const transport::Request& request, const AddressPath& path,
                        std::uint32_t qkey);
  Verdict offer_datagram(QueuePair& qp, QueuePair& peer, const transport::Request& request,
                         const AddressPath& path, std::uint32_t qkey);
  Verdict receive_datagram(QueuePair& qp, QueuePair& peer, const transport::Request& request,
                           const AddressPath& path);

  // engine_demux.cpp
  void receive_frame(PortBinding& binding, const wire::ParsedFrame& frame);
  static bool is_of_partition(const wire::ParsedFrame& frame);
  bool answer_late(const wire::ParsedFrame& frame);

  // engine_complete.cpp
  void complete_command(QueuePair& qp, PcbId pcb, Verdict verdict) override;
  void fail_users_of_overflowed();

  // engine_states.cpp
  void choose_transport(QueuePair& qp, bool local);
  void configure(QueuePair& qp);
  void open_send_queue(QueuePair& qp);
  void flush(QueuePair& qp);
  bool flush_receives(QueuePair& qp);
  void check_drained(QueuePair& qp);

  // engine_windows.cpp
  static bool is_window_command(const abi::CommandHeader& header);
  void run_window_command(QueuePair& qp, PcbId pcb);

  // engine_multicast.cpp
  bool run_multicast(QueuePair& qp, const transport::Request& request, AddressHandle& ah,
                     std::uint32_t qkey);
  Verdict deliver_to_members(QueuePair& qp, const transport::Request& request,
                             const AddressPath& path, std::uint32_t qkey);
  void receive_multicast(PortBinding& binding, const wire::ParsedFrame& frame);

  // engine_datagram_service.cpp
  std::size_t give_back_buffers();
  std::size_t run_datagram_services();
  bool clients_wait() const;
  Time next_neighbour_try() const;
  void announce_datagrams();
  std::size_t take_sends(DatagramService& service);
  std::size_t try_waiting(DatagramService& service);
  static bool has_place(const DatagramService& service, const Datagram& datagram);
  bool post(DatagramService& service, const Datagram& datagram);
  Tenant* owner_of(const QueuePair& qp, const Gid& address, std::optional<PortId> port) const;
  std::optional<std::uint32_t> admit(DatagramService& service, const Tenant& tenant,
                                     std::span<const std::byte> start, std::size_t length,
                                     const Gid& source);
  bool is_within_share(DatagramService& service, bool from_busy_source);
  void hand_over(DatagramService& service, std::uint32_t buffer);
  void receive_for_clients(QueuePair& qp, const Tenant& tenant, const wire::ParsedFrame& frame,
                           PortId port);
  Verdict deliver_to_clients(QueuePair& from, QueuePair& to, const Tenant& tenant,
                             const transport::Request& request, const AddressPath& path);

  StepClock clock_;
  EventLog event_log_{clock_};
  AsyncEvents async_events_;
  CompletionEvents completion_events_;
  LocalAddresses addresses_;
  AddressHandles address_handles_;
  Multicast multicast_;
  collect::PcbPool pcbs_;
  QpTable queue_pairs_;
  OverflowPlaces overflow_places_;
  schedule::SendQueueScheduler scheduler_;
  schedule::TvlTable tvls_;
  schedule::KickArbitrator arbitrator_;
  MemoryAccess memory_;
  transport::RequestTable requests_;
  transport::ReplayStore replays_;
  CpuScheduler cpu_;
  CommandStore commands_;
  Ingress ingress_;
  Dispatch dispatch_;
  GuaranteeLending lending_;
  TvlAssignment tvl_assignment_;
  RateControl rates_{clock_};
  ReceiveQueues receive_queues_;
  PayloadReader payloads_;
  CongestionParameters congestion_parameters_;
  PacketIo packets_;
  CongestionControl congestion_;
  TransportParts parts_;
  TimerWheel timers_;

  TimeWaitTable time_wait_;
  std::vector<DatagramService*> datagram_services_;
};

}  // namespace softhca::engine
