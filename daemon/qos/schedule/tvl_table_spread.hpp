// SPDX-License-Identifier: Apache-2.0

// Transmit virtual lanes (TVLs): their tenants, weights, kick-list lengths and credits (mechanisms
// A1, A2, A3, A9). TVLs may be added, changed and removed while others are at work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/pools/automatic_adjustment.hpp"
#include "daemon/qos/pools/quota_search_and_lending.hpp"

namespace softhca::schedule {

/// What a TVL carries. The dedicated PCBs of the send queue scheduler and of management have TVLs
/// of their own (A9).
enum class TvlPurpose : std::uint8_t { kCommands, kDedicated };

struct TvlTerms {
  TenantId tenant;
  QosClassId qos_class;  ///< of the tenant as a whole: also for levels without TVLs of their own
  TvlPurpose purpose = TvlPurpose::kCommands;
  std::uint32_t weight = 1;                 ///< starts per round, relative to the others
  std::uint32_t max_kick_list = 0;          ///< commands that may wait for their start
  std::uint32_t execution_guaranteed = 0;   ///< commands it may have in execution, own
  std::uint32_t completion_guaranteed = 0;  ///< commands not yet acknowledged, own
  bool may_share = true;                    ///< false: the guarantees are also hard caps
};

/// Row of the table. Its gauges may be read on any thread.
struct Tvl {
  bool used = false;
  bool closing = false;  ///< takes no more queue pairs
  TenantId tenant;
  QosClassId qos_class;
  TvlPurpose purpose = TvlPurpose::kCommands;
  std::uint32_t weight = 1;
  std::uint32_t max_kick_list = 0;
  std::uint32_t queue_pairs = 0;  ///< on this TVL
  Quota execution;
  Quota completion;
  AutomaticAdjustment execution_idle;
  AutomaticAdjustment completion_idle;
};

class TvlTable {
 public:
  struct Config {
    std::uint16_t max_tvls = 0;
    /// Credits of the adapter, guaranteed and shared ones together. The guarantees of dedicated
    /// TVLs come on top.
    std::uint32_t execution_credits = 0;
    std::uint32_t completion_credits = 0;  ///< as execution_credits
  };

  /// Allocates everything; set-up only.
  explicit TvlTable(const Config& config);

  // --- set-up and live changes, between polls

  /// Adds a TVL. Errors: table full, a guarantee exceeds what is unallocated (ENOSPC); weight or
  /// kick-list length 0, a hard cap of no credit at all (EINVAL).
  Expected<TvlId> add(const TvlTerms& config);
  /// Gives the TVL the weight, kick-list length, guarantees and access to the shared rest of
  /// `config`, all or none. Opens it again if it was closed. Credits in use beyond a smaller
  /// guarantee are draining. Errors: as add(); no such TVL (ENOENT); too many credits are in use to
  /// take those of a dedicated TVL out of the pool (EBUSY). To be followed by
  /// KickArbitrator::refresh().
  Outcome change(TvlId id, const TvlTerms& config);
  /// Takes the first step of a removal: the TVL gets no more queue pairs and has no own credits.
  /// Its commands finish with shared credits, or are moved to other TVLs. Errors: no such TVL
  /// (ENOENT). To be followed by KickArbitrator::refresh().
  Outcome close(TvlId id);
  /// Removes a TVL. Errors: no such TVL (ENOENT); queue pairs are on it or credits in use (EBUSY).
  Outcome remove(TvlId id);

  /// Returns the TVL for a new queue pair: of that class and purpose, the one with the fewest queue
  /// pairs for its weight. Nothing: there is none.
  std::optional<TvlId> pick_tvl(QosClassId qos_class,
                                TvlPurpose purpose = TvlPurpose::kCommands) const;
  /// attach() puts a queue pair on the TVL, and recalls what it has lent if it is the first.
  /// detach() takes it off.
  void attach(TvlId id) {
    Tvl& tvl = tvls_[id.value];
    if (tvl.queue_pairs++ != 0) return;
    execution_.recall(tvl.execution);
    completion_.recall(tvl.completion);
  }
  void detach(TvlId id) { --tvls_[id.value].queue_pairs; }

  /// Lends what the TVL has left idle, or brings back what it has recalled (A10). `may_lend`: its
  /// tenant lends. True if KickArbitrator::refresh() is to follow.
  bool adjust(TvlId id, bool may_lend, const AdjustmentPolicy& policy, Time now);

  /// Returns the number of rows, those not in use included.
  std::uint16_t size() const { return static_cast<std::uint16_t>(tvls_.size()); }
  Tvl& operator[](TvlId id) { return tvls_[id.value]; }
  const Tvl& operator[](TvlId id) const { return tvls_[id.value]; }

  QuotaPool& execution_pool() { return execution_; }
  QuotaPool& completion_pool() { return completion_; }
  const QuotaPool& execution_pool() const { return execution_; }
  const QuotaPool& completion_pool() const { return completion_; }

 private:
  Outcome check(const TvlTerms& config, const std::string& who) const;
  bool known(TvlId id) const { return id.value < tvls_.size() && tvls_[id.value].used; }

  QuotaPool execution_;
  QuotaPool completion_;
  std::vector<Tvl> tvls_;  ///< rows never move
};

}  // namespace softhca::schedule
