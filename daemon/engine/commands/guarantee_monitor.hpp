// SPDX-License-Identifier: Apache-2.0

// Guarantee monitor: checks whether classes have what they are guaranteed while they want it. They
// have it by construction, except where the operator allowed otherwise. Guarantees that are lent
// while idle come back when the borrower gives them back. Guarantees that are raised are filled as
// other classes finish. Packets and control requests for a tenant take their time out of its turn.
//
// A guarantee that was not kept for a while is an event, at most one in ten seconds for each class
// and kind. The time is always counted.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/records/event_log.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/schedule/run_queue.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::engine {

class GuaranteeMonitor {
 public:
  GuaranteeMonitor(const StepClock& clock, const LocalAddresses& addresses,
                   const schedule::RunQueue& order, const collect::PcbPool& pcbs,
                   const schedule::TvlTable& tvls, EventLog& log, std::uint16_t tenants)
      : clock_(clock),
        addresses_(addresses),
        order_(order),
        pcbs_(pcbs),
        tvls_(tvls),
        log_(log),
        classes_(pcbs.max_groups()),
        engine_(tenants) {}

  // --- of a census (wait_census.hpp)
  void begin_census();
  /// To be called when commands of the queue pair wait in its send queue for PCBs.
  void waits_for_pcb(const QueuePair& qp);
  /// To be called when commands of it wait in the kick list of its own TVL for credits.
  void waits_for_credits(const QueuePair& qp);
  /// Counts a sample of the queue pair: its commands wait for the engine alone, or not.
  void looked(const QueuePair& qp, bool waits_for_engine) {
    EngineShare& share = engine_[qp.tenant->id.value];
    ++(waits_for_engine ? share.waiting : share.others);
  }

  void forget(const Tenant& tenant);

 private:
  /// How long a class has lacked something that it is guaranteed.
  struct Lack {
    Time since = kNever;
    Time seen{};
    Time next_event{};
  };
  using Lacks = std::array<Lack, static_cast<std::size_t>(Guarantee::kCount)>;
  /// What a tenant has had of the engine's time in the current interval.
  struct EngineShare {
    std::int64_t time_before = 0;  ///< by its weight, in cost units
    std::uint32_t waiting = 0;     ///< samples of queue pairs that waited for the engine
    std::uint32_t others = 0;      ///< other samples
    Time next_event{};
  };

  void note(const QueuePair& qp, Guarantee what, const Quota& quota, const QuotaPool& pool,
            const char* lent, const char* overdrawn);
  std::int64_t time_by_weight(const Tenant& tenant) const;
  void divide_engine();
  void begin_interval();

  const StepClock& clock_;
  const LocalAddresses& addresses_;
  const schedule::RunQueue& order_;
  const collect::PcbPool& pcbs_;
  const schedule::TvlTable& tvls_;
  EventLog& log_;
  std::vector<Lacks> classes_;       ///< by class
  std::vector<EngineShare> engine_;  ///< by tenant
  Time interval_began_{};
};

}  // namespace softhca::engine
