// Which TVLs the commands of a queue pair take (mechanism A12), what happens to them when one of
// these goes, and how much weight TVLs give their tenants and classes in the engine's time.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/engine/command_store.hpp"
#include "daemon/engine/ingress.hpp"

namespace softhca::engine {

class TvlAssignment {
 public:
  TvlAssignment(const QpTable& queue_pairs, CommandStore& commands, CpuScheduler& cpu,
                Ingress& ingress, schedule::TvlTable& tvls, schedule::KickArbitrator& arbitrator,
                std::uint16_t tenants, std::uint16_t classes)
      : queue_pairs_(queue_pairs),
        commands_(commands),
        cpu_(cpu),
        ingress_(ingress),
        tvls_(tvls),
        arbitrator_(arbitrator),
        tenants_(tenants),
        classes_(classes) {}

  /// As TvlTable::add(), change() and close(); commands that wait see the difference.
  Expected<TvlId> add(const schedule::TvlTerms& config);
  Outcome change(TvlId id, const schedule::TvlTerms& config);
  Outcome close(TvlId id);
  /// Determines all weights anew: a class may be another tenant's now.
  void find_weights();

  /// The queue pair takes TVLs. REQUIRES: its tenant has some of both kinds.
  void join(QueuePair& qp);
  /// The queue pair takes TVLs no longer.
  void leave(QueuePair& qp);

 private:
  void refresh();
  std::optional<TvlId> tvl_for(const QueuePair& qp, schedule::TvlPurpose purpose) const;
  bool replace(QueuePair& qp, TvlId id);
  void empty(TvlId id);

  const QpTable& queue_pairs_;
  CommandStore& commands_;
  CpuScheduler& cpu_;
  Ingress& ingress_;
  schedule::TvlTable& tvls_;
  schedule::KickArbitrator& arbitrator_;
  std::uint16_t tenants_;
  std::uint16_t classes_;
};

}  // namespace softhca::engine
