// SPDX-License-Identifier: Apache-2.0

// Automatic adjustment of one guarantee (mechanism A10): lends to the shared part what the holder
// has left idle for a while, except for a reserve. The guarantee comes back when the holder asks
// for it (QuotaPool::take), not here. Pure: the caller passes the time.
//
// A holder with steady demand, or demand that varies within the observed time, never has to recall:
// its peak use in that time stays in force. After a recall the observation starts again, so a
// guarantee is lent and recalled at most once in that time.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/qos/pools/quota_search_and_lending.hpp"

namespace softhca {

struct AdjustmentPolicy {
  Duration idle = std::chrono::seconds(10);  ///< things not in use for this long are lent
  /// Fraction of the guarantee that stays in force above the recent peak. The holder uses this
  /// reserve until the borrowers give back what it recalls.
  double keep = 0.1;
};

/// What may be lent of a guarantee now.
enum class Lending : std::uint8_t {
  kNone,  ///< nothing; recalls what is lent
  kIdle,  ///< what has not been in use for AdjustmentPolicy::idle
  kAll,   ///< all but the reserve, at once: the holder has no programs that could use it
};

class AutomaticAdjustment {
 public:
  /// Adjusts what is lent. Call it at least kParts times in `policy.idle`. For a level, `parent` is
  /// the quota of its tenant. Returns true if the part of the guarantee in force has changed.
  bool look(QuotaPool& pool, Quota& q, Quota* parent, Lending lending,
            const AdjustmentPolicy& policy, Time now) {
    if (lending == Lending::kNone || q.recalling) {
      seen_ = 0;
      if (q.lent.value() == 0) return false;
      return parent == nullptr ? pool.recall(q) : pool.recall(q, *parent);
    }
    const bool watched = watch(q, policy, now);
    const auto kept = static_cast<std::uint32_t>(
        std::ceil(policy.keep * static_cast<double>(q.guaranteed.value())));
    if (lending == Lending::kAll) return lend_down_to(pool, q, kept);
    if (!watched) return false;
    return lend_down_to(pool, q, *std::max_element(most_.begin(), most_.end()) + kept);
  }

 private:
  static constexpr std::size_t kParts = 4;

  /// Records the use. Returns true if the whole time to be observed has passed.
  bool watch(Quota& q, const AdjustmentPolicy& policy, Time now) {
    const bool recalled = recalls_ != q.recalls.value();
    if (seen_ == 0 || recalled) {
      recalls_ = q.recalls.value();
      seen_ = 1;
      part_ = 0;
      begin(q, now);
      return false;
    }
    if (now - since_ < policy.idle / kParts) return false;
    most_[part_] = q.peak.value();
    part_ = (part_ + 1) % kParts;
    seen_ = std::min(seen_ + 1, kParts + 1);
    begin(q, now);
    return seen_ > kParts;
  }

  void begin(Quota& q, Time now) {
    since_ = now;
    q.peak.set(q.in_use.value());
  }

  static bool lend_down_to(QuotaPool& pool, Quota& q, std::uint32_t in_force) {
    const std::uint32_t least = std::max(in_force, q.in_use.value());
    if (q.in_force() <= least) return false;
    pool.lend(q, q.in_force() - least);
    return true;
  }

  std::array<std::uint32_t, kParts> most_{};  ///< peak use in each of the latest parts of the time
  std::size_t part_ = 0;
  std::size_t seen_ = 0;  ///< parts begun since the observation started; 0: not observed
  Time since_{};          ///< start of the current part
  std::uint64_t recalls_ = 0;
};

}  // namespace softhca
