// SPDX-License-Identifier: Apache-2.0

// The doorbell overflow buffer as the send queue scheduler sees it: one place for each queue pair,
// in the memory of its send ring. The place is allocated and accounted for with the ring. It exists
// as long as a doorbell can refer to it, so no number of doorbells or queue pairs can overflow it.
#pragma once

#include <optional>

#include "daemon/engine/records/qp_table.hpp"
#include "daemon/qos/schedule/doorbell_overflow.hpp"

namespace softhca::engine {

class OverflowPlaces final : public schedule::DoorbellOverflow {
 public:
  /// `queue_pairs` outlives it.
  explicit OverflowPlaces(const QpTable& queue_pairs) : queue_pairs_(queue_pairs) {}

  void write(schedule::QpSlot slot, std::uint32_t sequence_end) override {
    QueuePair& qp = queue_pairs_[slot.value];
    qp.sq.ring.write_overflow(qp.qpn.value, sequence_end);
  }
  std::optional<std::uint32_t> read(schedule::QpSlot slot) const override {
    const QueuePair& qp = queue_pairs_[slot.value];
    return qp.sq.ring.read_overflow(qp.qpn.value);
  }

 private:
  const QpTable& queue_pairs_;
};

}  // namespace softhca::engine
