// SPDX-License-Identifier: Apache-2.0

// Remarks that a capture attaches to a packet: why the daemon dropped it, or did not execute it
// when it came.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/verdict.hpp"
#include "daemon/engine/records/counters.hpp"
#include "daemon/engine/records/fault_terms.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/drop_reason.hpp"

namespace softhca::engine {

/// Index into the list of capture_remarks(); 0: no remark.
enum class CaptureRemark : std::uint8_t { kNone = 0 };

CaptureRemark remark_of(wire::DropReason reason);
CaptureRemark remark_of(FrameDrop reason);
/// Returns kNone if `count` does not mean that a packet was dropped or not executed.
CaptureRemark remark_of(transport::Count count);
/// Returns the remark for a request that ended with this verdict at its responder, or in local
/// delivery because no queue pair is connected.
CaptureRemark remark_of(Verdict verdict);
/// Returns the remark for a packet to a neighbour that does not answer.
CaptureRemark unresolved_remark();
/// Returns the remark for a fault that the operator injects.
CaptureRemark injected_remark(FaultKind kind);

/// Returns the texts by number. The text for a dropped packet has the name of the reason in
/// metrics.
std::vector<std::string> capture_remarks();

/// Finds out why a packet was dropped by the counters that grew while it was processed. So the code
/// that counts need not know about captures. To be made before the packet is handed on.
class DropWatch {
 public:
  /// `port`: null if the packet came by no port. `one`, `other`: the tenants of its queue pairs, or
  /// null.
  /// `lost`: counts packets that faults drop; null if no fault applies here.
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
