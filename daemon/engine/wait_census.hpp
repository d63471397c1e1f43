// Where the time of send commands goes: a census of what commands wait for, taken now and then.
//
// By Little's law the time that commands spend waiting for something is the number of those that
// wait for it, summed over time. The number is taken some thousand times a second for a few queue
// pairs in rotation, at random intervals, and stands for the time since the same queue pair was
// looked at last. So the path of a command has nothing to write down, and what is known of the
// state of queue pairs anyhow says what they wait for. The fewer the looks that something is seen
// in, the less precise is its share.
//
// The census comes first in a poll step, when everything is as it was between the steps. What a
// step finishes at once has waited for nothing but its beginning.
//
// A command waits for what the one before it waits for. And where commands of a class that have all
// they need wait for the engine, and it never runs out of them, those that lack something wait for
// the engine, too: with more of that they would only wait elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/guarantee_watch.hpp"
#include "daemon/engine/ingress.hpp"
#include "daemon/engine/memory_waits.hpp"
#include "daemon/engine/slow_memory.hpp"

namespace softhca::engine {

class WaitCensus {
 public:
  WaitCensus(const StepClock& clock, const LocalAddresses& addresses, const Ingress& ingress,
             CpuScheduler& cpu, CommandStore& commands, const collect::PcbPool& pcbs,
             const schedule::SendQueueScheduler& scheduler, const schedule::TvlTable& tvls,
             const schedule::KickArbitrator& arbitrator, const SlowMemory& memory,
             const MemoryWaits& accesses, EventLog& log, std::uint16_t tenants)
      : clock_(clock),
        ingress_(ingress),
        cpu_(cpu),
        commands_(commands),
        scheduler_(scheduler),
        arbitrator_(arbitrator),
        memory_(memory),
        accesses_(accesses),
        guarantees_(clock, addresses, cpu.order(), pcbs, tvls, log, tenants),
        tvls_(tvls.size()),
        classes_(pcbs.max_groups()) {}

  /// At the beginning of a poll step, before anything is done; the last one began at `previous`.
  void begin_step(Time previous) {
    if (clock_.now >= due_) take(previous);
  }
  /// The tenant is going: what was seen of it does not hold for who has its number next.
  void forget(const Tenant& tenant) { guarantees_.forget(tenant); }

 private:
  /// What a TVL has lacked since it was looked at.
  struct TvlLack {
    std::uint64_t execution_waits = 0;
    std::uint64_t completion_waits = 0;
    Time looked{};
    WaitCause lacked = WaitCause::kEngine;
  };

  /// Has a class had work for the engine whenever that was there for it?
  struct ClassLoad {
    std::uint32_t rests = 0;
    Time looked{};
    bool saturated = false;
  };

  void take(Time previous);
  void look(Session& session, Duration gap);
  void look(QueuePair& qp);
  static WaitCause cause_of(SetAside aside, transport::SendObstacle obstacle);
  WaitCause in_front(const QueuePair& qp, transport::SendObstacle obstacle) const;
  WaitCause in_kick_list(const QueuePair& qp);
  WaitCause in_send_queue(const QueuePair& qp, std::uint32_t kicked);
  WaitCause lacked(TvlId tvl);
  bool is_saturated(QosClassId qos_class);
  std::uint64_t elapsed(Time& counted) const;

  const StepClock& clock_;
  const Ingress& ingress_;
  CpuScheduler& cpu_;
  CommandStore& commands_;
  const schedule::SendQueueScheduler& scheduler_;
  const schedule::KickArbitrator& arbitrator_;
  const SlowMemory& memory_;
  const MemoryWaits& accesses_;
  GuaranteeWatch guarantees_;
  std::vector<TvlLack> tvls_;
  std::vector<ClassLoad> classes_;
  Time due_{};
  Time taken_{};             ///< the last one
  std::uint64_t spent_ = 0;  ///< engine time at that
  bool busy_ = false;        ///< between the last two of them, nearly all the time
  std::uint32_t random_ = 1;
  std::size_t next_session_ = 0;
};

}  // namespace softhca::engine
