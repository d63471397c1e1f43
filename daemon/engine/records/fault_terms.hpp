// SPDX-License-Identifier: Apache-2.0

// What a fault does, to which packets, how often and until when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"

namespace softhca::engine {

enum class FaultKind : std::uint8_t {
  kDrop,
  kDelay,
  kDuplicate,
  kReorder,
  kCorrupt,  ///< flips a bit that the ICRC covers
  kMark,     ///< marks an ECN-capable packet as having met congestion
  kRnr,      ///< a message finds no receive, although there is one
  kCount,
};
inline constexpr std::size_t kFaultKinds = static_cast<std::size_t>(FaultKind::kCount);

constexpr const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kDrop:
      return "drop";
    case FaultKind::kDelay:
      return "delay";
    case FaultKind::kDuplicate:
      return "duplicate";
    case FaultKind::kReorder:
      return "reorder";
    case FaultKind::kCorrupt:
      return "corrupt";
    case FaultKind::kMark:
      return "mark";
    case FaultKind::kRnr:
      return "rnr";
    case FaultKind::kCount:
      break;
  }
  return "";
}

/// As the adapter of this daemon sees it.
enum class FaultDirection : std::uint8_t { kBoth, kSent, kReceived };

struct FaultTerms {
  FaultKind kind = FaultKind::kDrop;

  /// The target: what matches all of these that are given.
  std::optional<TenantId> tenant;
  std::optional<PortId> port;
  std::optional<Qpn> qpn;
  FaultDirection direction = FaultDirection::kBoth;

  std::uint64_t every = 0;  ///< every n-th match; 0: at random
  double probability = 0;   ///< in [0, 1]
  std::uint64_t count = 0;  ///< most times that it strikes; 0: any number
  std::uint64_t seed = 1;
  Time until = kNever;

  Duration delay{};      ///< kDelay; kReorder: at most
  Duration jitter{};     ///< kDelay: up to this much more
  std::uint32_t by = 0;  ///< kReorder: until so many later packets to the same queue pair have gone
};

}  // namespace softhca::engine
