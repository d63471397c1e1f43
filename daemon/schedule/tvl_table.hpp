// Transmit virtual lanes (TVLs): whose they are, their weight, kick-list length and credits
// (mechanisms A1, A2, A9).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/quota.hpp"
#include "daemon/base/types.hpp"

namespace softhca::schedule {

/// What a TVL carries. The dedicated PCBs of send queue scheduler and management have TVLs of
/// their own (A9).
enum class TvlPurpose : std::uint8_t { kCommands, kDedicated };

struct TvlConfig {
  TenantId tenant;
  TvlPurpose purpose = TvlPurpose::kCommands;
  std::uint32_t weight = 1;                 ///< starts per round, relative to the others
  std::uint32_t max_kick_list = 0;          ///< commands that may wait for their start
  std::uint32_t execution_guaranteed = 0;   ///< commands it may have in execution, own
  std::uint32_t completion_guaranteed = 0;  ///< commands not yet acknowledged, own
  bool may_share = true;                    ///< false: the guarantees are also hard caps
};

/// Row of the table. Its gauges may be read on any thread.
struct Tvl {
  TenantId tenant;
  TvlPurpose purpose = TvlPurpose::kCommands;
  std::uint32_t weight = 1;
  std::uint32_t max_kick_list = 0;
  Quota execution;
  Quota completion;
};

class TvlTable {
 public:
  struct Config {
    std::uint16_t max_tvls = 0;
    std::uint16_t max_tenants = 0;
    std::uint32_t execution_credits = 0;   ///< of the adapter: guaranteed and shared together
    std::uint32_t completion_credits = 0;  ///< likewise
  };

  /// Allocates everything; set-up only.
  explicit TvlTable(const Config& config);

  /// Set-up. Errors: table full, a guarantee exceeds what is unallocated (ENOSPC); tenant out of
  /// range, weight or kick-list length 0, a hard cap of no credit at all (EINVAL).
  Expected<TvlId> add(const TvlConfig& config);

  /// The TVL of a queue pair: the queue pairs of a tenant are spread over its TVLs of that purpose,
  /// and each stays on one as long as none is added. Nothing: the tenant has none.
  std::optional<TvlId> pick_tvl(TenantId tenant, Qpn qpn,
                                TvlPurpose purpose = TvlPurpose::kCommands) const;

  std::uint16_t size() const { return static_cast<std::uint16_t>(tvls_.size()); }
  std::uint16_t max_tvls() const { return max_tvls_; }
  Tvl& operator[](TvlId id) { return tvls_[id.value]; }
  const Tvl& operator[](TvlId id) const { return tvls_[id.value]; }

  QuotaPool& execution_pool() { return execution_; }
  QuotaPool& completion_pool() { return completion_; }
  const QuotaPool& execution_pool() const { return execution_; }
  const QuotaPool& completion_pool() const { return completion_; }

 private:
  struct TenantLanes {
    std::vector<TvlId> of_purpose[2];
  };

  std::uint16_t max_tvls_;
  QuotaPool execution_;
  QuotaPool completion_;
  std::vector<Tvl> tvls_;  ///< capacity max_tvls_: rows never move
  std::vector<TenantLanes> tenants_;
};

}  // namespace softhca::schedule
