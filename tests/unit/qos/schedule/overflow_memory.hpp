// SPDX-License-Identifier: Apache-2.0

// Stands for the doorbell overflow buffer in the tenants' memory.
#pragma once

#include <map>
#include <optional>

#include "daemon/qos/schedule/doorbell_overflow.hpp"

namespace softhca::schedule {

class OverflowMemory final : public DoorbellOverflow {
 public:
  void write(QpSlot slot, std::uint32_t sequence_end) override { ends[slot.value] = sequence_end; }
  std::optional<std::uint32_t> read(QpSlot slot) const override {
    const auto found = ends.find(slot.value);
    if (found == ends.end()) return std::nullopt;
    return found->second;
  }

  std::map<std::uint32_t, std::uint32_t> ends;
};

}  // namespace softhca::schedule
