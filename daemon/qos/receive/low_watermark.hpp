// SPDX-License-Identifier: Apache-2.0

// Checks how full a shared receive queue is, as rarely as possible. One check serves the limit
// event that the program arms (IBA 11.2.3.3), the operator's watermark (D4), and the figures by
// which the operator judges the size of the queue.
//
// At a draw, the engine knows how many receives the ring had when it was last read, less the draws
// since then. This is a lower bound. While it is above the value that must_look() compares with, no
// threshold can have been crossed, and the tenant's memory need not be read.
//
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace softhca::receive {

class LowWatermark {
 public:
  /// The thresholds that were crossed since the previous look().
  struct Crossed {
    bool limit = false;      ///< the program's; it is then disarmed
    bool watermark = false;  ///< the operator's
  };

  LowWatermark() = default;
  /// `entries`: size of the ring.
  explicit LowWatermark(std::uint32_t entries)
      : entries_(entries), step_(std::max(entries / kSteps, 1u)), least_(entries) {}

  /// `known`: lower bound of the receives there. Returns false if look() would find nothing.
  bool must_look(std::uint32_t known) const { return std::int64_t{known} <= trigger_; }
  /// Checks the thresholds. `available`: receives there now, after `drawn` have just been drawn.
  Crossed look(std::uint32_t available, std::uint32_t drawn = 0) {
    Crossed crossed;
    most_ = std::max(most_, available + drawn);
    if (starts_) least_ = available;
    least_ = std::min(least_, available);
    starts_ = false;
    if (limit_ != 0 && available < limit_) {
      limit_ = 0;
      crossed.limit = true;
    }
    if (watermark_ != kNone) {
      const bool low = available <= watermark_;
      crossed.watermark = low && !low_;
      low_ = low;
    }
    aim(available);
    return crossed;
  }

  /// Arms the program's limit, once: it is crossed when fewer receives are there. 0 disarms it.
  void arm(std::uint32_t limit) {
    limit_ = limit;
    look_soon();
  }
  std::uint32_t armed() const { return limit_; }
  /// Sets the operator's watermark. It is crossed each time the receives fall to it or below. If
  /// `after_rise`, the first crossing also needs more receives before it: a program may never post
  /// that many.
  void set_watermark(std::uint32_t watermark, bool after_rise) {
    watermark_ = watermark;
    low_ = after_rise;
    look_soon();
  }

  std::uint32_t entries() const { return entries_; }
  /// Returns the most receives seen; exact to a 64th of the entries, like least().
  std::uint32_t most() const { return most_; }
  std::uint32_t least() const { return least_; }
  /// Returns the most receives that were drawn and not posted again.
  std::uint32_t peak() const { return most_ > least_ ? most_ - least_ : 0; }

 private:
  static constexpr std::uint32_t kSteps = 64;
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  void look_soon() { trigger_ = std::numeric_limits<std::int64_t>::max(); }
  /// Sets the number of receives above which no threshold can be crossed.
  void aim(std::uint32_t available) {
    const auto below = [&](std::uint32_t what) { return std::int64_t{what} - step_; };
    trigger_ = std::max<std::int64_t>(below(least_), 0);
    if (limit_ != 0) trigger_ = std::max(trigger_, std::int64_t{limit_} - 1);
    if (watermark_ == kNone) return;
    trigger_ = std::max(trigger_, low_ ? below(available) : std::int64_t{watermark_});
  }

  std::uint32_t entries_ = 0;
  std::uint32_t step_ = 1;
  std::int64_t trigger_ = std::numeric_limits<std::int64_t>::max();
  std::uint32_t limit_ = 0;
  std::uint32_t watermark_ = kNone;
  std::uint32_t least_ = 0;
  std::uint32_t most_ = 0;
  bool starts_ = true;
  bool low_ = false;  ///< at or below the watermark, and reported or not to be reported
};

}  // namespace softhca::receive
