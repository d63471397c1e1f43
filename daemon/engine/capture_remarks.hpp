// What a capture says of a packet: why it was dropped, or not executed as it came.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/verdict.hpp"
#include "daemon/engine/counters.hpp"
#include "daemon/engine/fault_terms.hpp"
#include "daemon/transport/upcalls.hpp"
#include "daemon/wire/drop_reason.hpp"

namespace softhca::engine {

/// Index of the list below; 0: nothing to say.
enum class CaptureRemark : std::uint8_t { kNone = 0 };

CaptureRemark remark_of(wire::DropReason reason);
CaptureRemark remark_of(FrameDrop reason);
/// kNone for what is no reason to drop or pass over a packet.
CaptureRemark remark_of(transport::Count count);
/// A request that ended so at its responder, or in local delivery for want of one.
CaptureRemark remark_of(Verdict verdict);
/// Sent to a neighbour that does not answer.
CaptureRemark unresolved_remark();
/// A fault that the operator has asked for.
CaptureRemark injected_remark(FaultKind kind);

/// The texts, by number. Those of dropped packets have the name by which metrics count them.
std::vector<std::string> capture_remarks();

/// Tells why a packet was dropped by what was counted while it was looked at, so that the parts
/// that count need not know of captures. Made before the packet is handed on.
class DropWatch {
 public:
  /// `port`: null: it came by none. `one` and `other`: tenants whose queue pairs it concerns, or
  /// null.
  /// `lost`: counts what faults lose; null: it meets none here.
  DropWatch(const PortDropCounters* port, const TenantCounters* one,
            const TenantCounters* other = nullptr, const Counter* lost = nullptr);
  CaptureRemark remark() const;

 private:
  static constexpr std::size_t kFrameDrops = static_cast<std::size_t>(FrameDrop::kCount);
  static constexpr std::size_t kCounts = static_cast<std::size_t>(transport::Count::kCount);

  const PortDropCounters* port_;
  std::array<const TenantCounters*, 2> tenants_;
  const Counter* lost_;
  std::uint64_t lost_before_;
  std::array<std::uint64_t, kFrameDrops> frame_{};
  std::array<std::array<std::uint64_t, kCounts>, 2> counts_{};
};

}  // namespace softhca::engine
