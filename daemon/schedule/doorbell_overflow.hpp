// What the send queue scheduler knows of the doorbell overflow buffer (mechanism B4).
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/base/types.hpp"

namespace softhca::schedule {

/// Index of a queue pair in its engine's table.
using QpSlot = Id<struct QpSlotTag, std::uint32_t>;

/// The doorbell overflow buffer: memory of the tenants, one place for each queue pair. More is
/// never needed, because a later doorbell contains the earlier ones. What is read back is a claim
/// of the tenant's; that something is there, and in which order, the scheduler knows by itself.
class DoorbellOverflow {
 public:
  virtual ~DoorbellOverflow() = default;
  virtual void write(QpSlot slot, std::uint32_t sequence_end) = 0;
  /// Nothing: what lies there is no doorbell of this queue pair.
  virtual std::optional<std::uint32_t> read(QpSlot slot) const = 0;
};

}  // namespace softhca::schedule
