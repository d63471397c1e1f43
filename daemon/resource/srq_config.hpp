// Limits on how many buffers of a shared receive queue its queue pairs may hold (mechanism D).
#pragma once

#include <array>
#include <cstdint>

namespace softhca::resource {

enum class SrqLimitKind : std::uint8_t { kSoft, kHard };
enum class SrqExceed : std::uint8_t { kRaise, kReplenish, kDropMessage, kDropConnection };

/// Of the shared receive queues of a tenant. As it stands: no limit, and nothing is watched.
struct SrqConfig {
  std::array<std::uint32_t, 8> limits{};  ///< buffers of a queue pair, by importance; 0: no limit
  SrqLimitKind kind = SrqLimitKind::kHard;
  SrqExceed on_exceed = SrqExceed::kDropMessage;
  bool statistical = false;     ///< limits follow use
  double overcommit = 1.0;      ///< sum of limits / buffers of the queue
  std::uint32_t watermark = 0;  ///< buffers left at which the alarm is raised; 0: never

  bool operator==(const SrqConfig&) const = default;
};

}  // namespace softhca::resource
