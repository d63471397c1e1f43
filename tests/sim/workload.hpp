// SPDX-License-Identifier: Apache-2.0

// What one side does to the other in a run: operations with everything that must come out of them,
// laid out so that the outcome does not depend on timing. Each write has a slice of the peer's
// memory of its own; reads read constant bytes or an earlier write's slice; atomics have counters
// of their own direction.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/roce/transport/upcalls.hpp"
#include "tests/sim/random.hpp"

namespace softhca::sim {

inline constexpr std::uint64_t kRegionBase = 0x7f00'0000'0000;
inline constexpr std::uint32_t kConstantBytes = 1u << 16;  ///< at the start of a region
inline constexpr std::uint32_t kCounters = 4;              ///< follow the constant bytes
inline constexpr std::uint32_t kSliceStart = kConstantBytes + kCounters * 8;
inline constexpr std::uint32_t kReadableAs = 77;  ///< pool offset of the constant bytes
inline constexpr std::uint32_t kGuardBytes = 16;  ///< between slices, never written

struct Operation {
  transport::Request request;
  std::uint32_t data = 0;  ///< pool offset of the bytes sent, written or to be read
  std::uint64_t expected_original = 0;
  std::uint64_t expected_after = 0;  ///< of the counter
  std::uint32_t counter = 0;
  Verdict expected = Verdict::kOk;
};

enum class Kinds : std::uint8_t { kReliable, kUnreliable, kDatagram };

struct WorkloadLimits {
  std::uint32_t operations = 20;
  std::uint32_t mtu = 1024;
  std::uint32_t max_packets = 20;  ///< per message
  Kinds kinds = Kinds::kReliable;
  bool poison = false;  ///< one operation that the peer must refuse
};

struct Workload {
  std::vector<Operation> operations;
  std::uint32_t region_bytes = 0;  ///< of the peer's memory
  std::uint32_t longest_send = 0;
};

/// `rkey` is that of the peer's region.
Workload make_workload(const WorkloadLimits& limits, Rkey rkey, Random& random);

}  // namespace softhca::sim
