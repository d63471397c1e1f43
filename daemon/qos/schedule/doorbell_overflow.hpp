// SPDX-License-Identifier: Apache-2.0

// The doorbell overflow buffer as the send queue scheduler sees it (mechanism B4).
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/base/types.hpp"

namespace softhca::schedule {

/// Index of a queue pair in its engine's table.
using QpSlot = Id<struct QpSlotTag, std::uint32_t>;

/// The doorbell overflow buffer: memory of the tenants, with one place for each queue pair. More is
/// never needed, because a later doorbell contains the earlier ones. A doorbell that is read back
/// is a claim of the tenant. The scheduler itself knows which queue pairs have one there, and in
/// which order.
class DoorbellOverflow {
 public:
  virtual ~DoorbellOverflow() = default;
  virtual void write(QpSlot slot, std::uint32_t sequence_end) = 0;
  /// Returns nothing if the place does not hold a doorbell of this queue pair.
  virtual std::optional<std::uint32_t> read(QpSlot slot) const = 0;
};

}  // namespace softhca::schedule
