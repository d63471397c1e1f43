// Automatic adjustment of one guarantee (mechanism A10): what its holder has left idle for a while
// is lent to the shared rest, except for some that it keeps in hand. It comes back when the holder
// asks for it (QuotaPool::take), not here. Pure: time comes in.
//
// A holder whose demand is steady, or varies within the time watched, never has to recall anything:
// the most it had in use in that time stays in force. A holder that recalls is watched anew, so
// that a guarantee goes and comes back at most once in that time.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/qos/quota.hpp"

namespace softhca {

struct AdjustmentPolicy {
  Duration idle = std::chrono::seconds(10);  ///< what was not in use for this long is lent
  double keep = 0.1;  ///< of a guarantee: stays in force beyond the most in use lately; with
                      ///< this a holder goes on while borrowers take their time
};

/// What may be lent of a guarantee now.
enum class Lending : std::uint8_t {
  kNone,  ///< and what is lent is recalled
  kIdle,  ///< what has not been in use for as long as the policy says
  kAll,   ///< at once: nobody is there who could use it
};

class IdleWatch {
 public:
  /// To be called kParts times in `policy.idle`, or more often. For a level, `parent` is its
  /// tenant's quota. True: what is in force of the guarantee has changed.
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

  /// True: the whole time that is to be watched has passed.
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

  std::array<std::uint32_t, kParts> most_{};  ///< in use at once in the latest parts of the time
  std::size_t part_ = 0;
  std::size_t seen_ = 0;  ///< parts begun since it is watched; 0: it is not
  Time since_{};          ///< of the part at hand
  std::uint64_t recalls_ = 0;
};

}  // namespace softhca
