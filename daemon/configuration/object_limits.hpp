// SPDX-License-Identifier: Apache-2.0

// The kinds of objects and memory that a tenant's programs take on demand, and limits of them: of a
// tenant, of all tenants together, and of the machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace softhca::configuration {

enum class Kind : std::uint8_t {
  kSessions,  ///< opened device contexts
  kQueuePairs,
  kCompletionQueues,
  kSharedReceiveQueues,
  kMemoryRegions,
  kMemoryWindows,
  kRegisteredBytes,  ///< sum of all memory regions
  kSharedBytes,      ///< memory shared in place, registered or idle
  kProtectionDomains,
  kAddressHandles,
  kQueueBytes,   ///< rings of queues; state of reads and atomics that peers may have in flight
  kDescriptors,  ///< open in the daemon
  kMappings,     ///< of shared memory in the daemon's address space
  kCount,
};
inline constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::kCount);

/// Names of the kinds: keys in the configuration ([pools] and [[tenant]]) and labels in metrics.
inline constexpr std::array<const char*, kKinds> kKindNames = {"sessions",
                                                               "queue_pairs",
                                                               "completion_queues",
                                                               "shared_receive_queues",
                                                               "memory_regions",
                                                               "memory_windows",
                                                               "registered_bytes",
                                                               "shared_bytes",
                                                               "protection_domains",
                                                               "address_handles",
                                                               "queue_bytes",
                                                               "descriptors",
                                                               "mappings"};

constexpr const char* name_of(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

/// Calls f(kind) for every kind.
template <class F>
void for_each_kind(F&& f) {
  for (std::size_t i = 0; i < kKinds; ++i) f(static_cast<Kind>(i));
}

/// One number for each kind.
struct ObjectLimits {
  std::array<std::uint64_t, kKinds> values{};

  std::uint64_t& operator[](Kind kind) { return values[static_cast<std::size_t>(kind)]; }
  std::uint64_t operator[](Kind kind) const { return values[static_cast<std::size_t>(kind)]; }
  bool operator==(const ObjectLimits&) const = default;
};

// --- what the machine allows the daemon

/// Returns the bytes of memory.
std::uint64_t machine_memory();
/// Returns vm.max_map_count, less what libraries, ports and threads may need.
std::uint64_t machine_mappings();
/// Returns the hard limit of open files (the daemon raises its soft limit to it), less what the
/// daemon needs for itself.
std::uint64_t machine_descriptors();

}  // namespace softhca::configuration
