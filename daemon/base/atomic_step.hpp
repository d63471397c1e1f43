// SPDX-License-Identifier: Apache-2.0

// An atomic operation on memory of a program, recorded such that it never runs twice although the
// process that runs it may end at any instruction.
#pragma once

#include <cstdint>

#include "daemon/base/store_order.hpp"

namespace softhca {

enum class AtomicState : std::uint8_t {
  kNone,
  kIntent,  ///< it may have run: the memory tells, see was_run()
  kDone,    ///< it has run
};

/// The value of the memory before and after.
struct AtomicStep {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
};

/// The record of an operation, in memory that outlives the process.
struct AtomicLog {
  AtomicStep& step;
  AtomicState& state;

  /// To be called before each attempt to replace `before` by `after`.
  void begin(std::uint64_t before, std::uint64_t after) {
    state = AtomicState::kNone;
    keep_store_order();
    step = {before, after};
    keep_store_order();
    state = AtomicState::kIntent;
    keep_store_order();
  }
  /// To be called when it has run.
  void end() {
    keep_store_order();
    state = AtomicState::kDone;
  }
};

/// What the memory tells about an operation in state kIntent.
enum class WasRun : std::uint8_t {
  kNo,
  kYes,
  kUnknown,  ///< a program has written to the memory at that moment
};

constexpr WasRun was_run(const AtomicStep& step, std::uint64_t now) {
  if (now == step.after) return WasRun::kYes;
  return now == step.before ? WasRun::kNo : WasRun::kUnknown;
}

}  // namespace softhca
