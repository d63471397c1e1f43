// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/engine.hpp"

#include <algorithm>
#include <utility>

#include "daemon/engine/receive/failed_sessions.hpp"

namespace softhca::engine {
namespace {

/// Each tenant is a class of its own, beside its levels.
std::uint16_t classes_of(const EngineLimits& limits) {
  return static_cast<std::uint16_t>(limits.tenants + limits.levels);
}

}  // namespace

Engine::CommandQueues::CommandQueues(const EngineLimits& limits, const StepClock& clock,
                                     QpTable& queue_pairs, CpuScheduler& cpu, RateControl& rates)
    : pcbs({.pcbs = limits.pcbs,
            .dedicated = limits.dedicated_pcbs,
            .max_groups = classes_of(limits)}),
      overflow_places(queue_pairs),
      scheduler({.max_queue_pairs = queue_pairs.slots(),
                 .max_classes = classes_of(limits),
                 .quantum = 16,
                 .doorbells = limits.doorbells,
                 .minimums = &cpu.minimums()},
                overflow_places),
      tvls({.max_tvls = limits.tvls,
            .execution_credits = limits.execution_credits,
            .completion_credits = limits.completion_credits}),
      arbitrator(tvls, pcbs.size(), &cpu.minimums()),
      commands(clock, queue_pairs, cpu, pcbs, scheduler, arbitrator, rates),
      core{.clock = clock,
           .queue_pairs = queue_pairs,
           .cpu = cpu,
           .pcbs = pcbs,
           .scheduler = scheduler,
           .tvls = tvls,
           .arbitrator = arbitrator,
           .commands = commands} {}

Engine::Engine(const EngineLimits& limits, EventSink& events, std::span<std::byte> memory)
    : durable_(limits, memory),
      cpu_(clock_, durable_.queue_pairs.slots(), limits.tenants, classes_of(limits), limits.tvls),
      events_(events, clock_, cpu_, durable_.queue_pairs.slots(), limits.tenants),
      rates_{.sent = {clock_, durable_.queue_pairs.slots(), classes_of(limits)},
             .peers = {clock_, durable_.queue_pairs.slots()},
             .memory = {clock_, durable_.queue_pairs.slots()}},
      queues_(limits, clock_, durable_.queue_pairs, cpu_, rates_.sent),
      memory_(durable_.state),
      intake_(queues_.core, rates_.sent, events_.async, events_.log, limits.vcbs, limits.tenants),
      dispatch_(queues_.core, rates_.sent),
      waits_(queues_.core, addressing_.local, intake_, rates_.memory, memory_.waits(), events_.log,
             limits.tenants),
      lending_(clock_, addressing_.local, intake_, queues_.pcbs, queues_.tvls, queues_.arbitrator,
               limits.tenants),
      tvl_assignment_(queues_.core, intake_, limits.tenants, classes_of(limits)),
      receive_queues_(clock_, durable_.queue_pairs, cpu_, events_.async, events_.completion,
                      events_.log),
      payloads_(queues_.pcbs, memory_, receive_queues_),
      wire_(clock_, addressing_.local, cpu_, payloads_, events_.log, events_.history,
            {.tenants = limits.tenants, .queue_pairs = durable_.queue_pairs.slots()}),
      parts_{.command_sink = execution_,
             .commands = queues_.commands,
             .pcbs = queues_.pcbs,
             .memory = memory_,
             .receives = receive_queues_,
             .congestion = wire_.congestion,
             .ud_congestion = wire_.datagrams,
             .cpu = cpu_,
             .events = events_.async,
             .queue_pairs = durable_.queue_pairs,
             .state = durable_.state,
             .peer_rates = rates_.peers,
             .slow_memory = rates_.memory,
             .memory_waits = memory_.waits(),
             .captures = wire_.packets.captures(),
             .faults = wire_.packets.faults(),
             .history = events_.history},
      refusals_(durable_.queue_pairs, addressing_.local, memory_, events_.history),
      execution_(queues_.core, dispatch_, memory_, events_.async, events_.completion, refusals_,
                 events_.history),
      lifecycle_(queues_.core, parts_, addressing_, execution_, tvl_assignment_, events_.log,
                 limits.kept_packets),
      sessions_(cpu_, queues_.pcbs, intake_, tvl_assignment_, events_.async),
      datagram_services_(queues_.core, memory_, wire_.packets, addressing_.handles,
                         events_.completion, sessions_, lifecycle_),
      ud_sender_(parts_, addressing_, datagram_services_),
      transports_(clock_, parts_, intake_, lifecycle_, ud_sender_),
      demux_(clock_, durable_.queue_pairs, addressing_, wire_, lifecycle_.time_wait(), transports_,
             datagram_services_) {
  intake_.order().heed(cpu_.minimums(), false);
}

void Engine::add_level(const Level& level) {
  queues_.commands.reset(level.qos_class);
  queues_.scheduler.reset(level.qos_class);
}

void Engine::add_tenant(Tenant& tenant) {
  queues_.commands.reset(tenant.qos_class);
  queues_.scheduler.reset(tenant.qos_class);
  addressing_.local.add(tenant);
  rates_.memory.add(tenant);
  wire_.packets.add_user(tenant.id);
  wire_.datagrams.add(tenant);
}

void Engine::remove_tenant(Tenant& tenant) {
  cpu_.end_step();
  memory_.waits().settle(tenant.counters.memory, true);
  addressing_.local.remove(tenant);
  waits_.forget(tenant);
  wire_.packets.captures().forget(tenant);
  wire_.datagrams.remove(tenant);
  cpu_.minimums().forget(tenant.id);
  wire_.packets.faults().forget(tenant);
  rates_.sent.forget(tenant.rate);
  rates_.peers.forget(tenant.peer_rates.inbound);
  rates_.peers.forget(tenant.peer_rates.served);
  rates_.memory.remove(tenant,
                       [this](std::uint32_t slot) { cpu_.make_ready(durable_.queue_pairs[slot]); });
}

bool Engine::poll(Time now) {
  if (!durable_.serves()) [[unlikely]] {
    clock_.now = now;
    return false;
  }
  waits_.begin_step(std::exchange(clock_.now, now));
  cpu_.begin_step();
  rates_.sent.release(
      [this](QosClassId qos_class) { queues_.scheduler.unblock_class(qos_class); },
      [this](std::uint32_t slot) { queues_.scheduler.unblock(schedule::QpSlot(slot)); });
  const auto wake = [this](std::uint32_t slot) { cpu_.make_ready(durable_.queue_pairs[slot]); };
  rates_.peers.release(wake);
  rates_.memory.release(wake);
  memory_.waits().release([this](std::uint32_t slot) {
    if (QueuePair* qp = durable_.queue_pairs.at(slot)) cpu_.make_ready(*qp);
  });
  // This comes first, so that datagrams that arrive now can have the buffers.
  std::size_t work = datagram_services_.take_back_buffers();
  work += wire_.packets.receive([this](PortBinding& binding, const wire::ParsedFrame& frame) {
    demux_.receive(binding, frame);
  });
  clock_.work_on(Subject());
  cpu_.choose_budget();
  work += datagram_services_.run();
  cpu_.end_work();
  work += intake_.collect();
  work += intake_.relieve_doorbells();
  work += dispatch_.fetch();
  work += execution_.start_commands();
  work += transports_.run_ready();
  work += transports_.expire();
  clock_.work_on(Subject());
  cpu_.end_work();
  if (events_.async.has_work()) work += events_.async.tell_holders();
  finish_batch();
  cpu_.end_step();
  return work != 0;
}

void Engine::finish_batch() {
  wire_.packets.finish_batch();
  if (!cpu_.failing.empty()) fail_some(cpu_, events_.async, receive_queues_);
  events_.completion.deliver();
  datagram_services_.announce();
  if (clock_.now >= events_.async.next_deadline()) events_.async.retry();
}

Time Engine::next_deadline() const {
  if (!durable_.serves()) return kNever;
  return std::min({lifecycle_.timers().next_deadline(), events_.completion.next_deadline(),
                   events_.async.next_deadline(), wire_.packets.next_deadline(),
                   rates_.sent.next_release(), rates_.peers.next_release(),
                   rates_.memory.next_release(), datagram_services_.next_deadline()});
}

EngineView Engine::view() {
  return {.pcbs = queues_.pcbs,
          .tvls = queues_.tvls,
          .arbitrator = queues_.arbitrator,
          .scheduler = queues_.scheduler,
          .minimums = cpu_.minimums(),
          .ports = wire_.packets.ports(),
          .addresses = addressing_.local,
          .receive_queues = receive_queues_,
          .captures = wire_.packets.captures(),
          .faults = wire_.packets.faults(),
          .authentication = wire_.packets.authentication(),
          .functions = intake_.functions()};
}

}  // namespace softhca::engine
