// SPDX-License-Identifier: Apache-2.0

// What the keeper and an adapter say to each other. The keeper forks a process, which loads the
// library of the adapter and calls its function kAdapterFunction. Both may be of different
// versions: structures only grow at their ends, and kHandoverVersion changes with anything else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "daemon/base/pulse.hpp"

namespace softhca::keeper {

inline constexpr std::uint32_t kHandoverVersion = 1;
inline constexpr char kAdapterFunction[] = "softhca_adapter";

/// One descriptor or memory that is kept.
struct KeptEntry {
  std::uint64_t id;     ///< ascending
  std::uint64_t bytes;  ///< of memory; 0: a descriptor alone
  std::byte* address;   ///< of the mapping; null: none
  std::int32_t fd;      ///< -1: closed
  std::uint32_t role;   ///< KeptRole
};

/// Why an adapter replaced the one before it.
enum class Cause : std::uint32_t { kStart, kUpgrade, kCrash, kHang, kRollback };
inline constexpr std::size_t kCauses = 5;
constexpr const char* name_of(Cause cause) {
  constexpr const char* kNames[kCauses] = {"start", "upgrade", "crash", "hang", "rollback"};
  return kNames[static_cast<std::size_t>(cause) % kCauses];
}

/// Bounds in ms of the times without service that are counted; the last counter has those beyond.
inline constexpr std::uint32_t kBlackoutBounds[] = {10, 25, 50, 100, 200, 500, 1000, 5000};
inline constexpr std::size_t kBlackoutCounters = std::size(kBlackoutBounds) + 1;

/// The keeper's account of restarts. The keeper alone writes it.
struct Restarts {
  std::atomic<std::uint64_t> of[kCauses];  ///< by Cause
  std::atomic<std::uint64_t> blackouts[kBlackoutCounters];
  std::atomic<std::uint64_t> blackout_ns_sum;
  std::atomic<std::uint64_t> last_blackout_ns;
  std::atomic<std::uint32_t> last_cause;
  std::atomic<std::int32_t> last_signal;  ///< that ended the adapter; 0: none
};

/// What adapters worked on when they ended by a fault of their own. The keeper alone writes it.
struct Faults {
  std::atomic<std::uint64_t> last;     ///< 0: unknown
  std::atomic<std::uint64_t> culprit;  ///< at the last two ends; 0: they differ
};

/// Memory that both share.
struct Shared {
  Pulse engine;
  Pulse control;
  Restarts restarts;
  Faults faults;
};

/// What an adapter gets at its start.
struct Handover {
  std::uint32_t version;  ///< kHandoverVersion
  std::uint32_t bytes;    ///< of this structure
  std::int32_t calls;     ///< socket for Call, which the adapter makes
  std::int32_t orders;    ///< socket for Order, which the keeper gives; it ends with the keeper
  Shared* shared;
  const KeptEntry* kept;
  std::uint64_t kept_count;
  std::uint32_t cause;  ///< Cause
  std::uint32_t reserved;
};
using AdapterFunction = int (*)(const Handover* handover, int argc, char** argv);

inline constexpr char kTrialFunction[] = "softhca_adapter_fits";
/// Returns if an adapter of this library can go on from what is kept, without changing anything of
/// it. If it cannot, writes why.
using TrialFunction = bool (*)(const Handover* handover, int argc, char** argv, char* why,
                               std::size_t room);
inline constexpr char kFits[] = "fits";  ///< what a trial then says

// --- calls: one record each, with at most one descriptor, and one record in reply

enum class CallKind : std::uint32_t {
  kKeep = 1,         ///< with a descriptor
  kKeepMemory,       ///< with a memfd of `bytes`
  kCloseDescriptor,  ///< of `id`
  kDrop,             ///< `id`
  kReady,            ///< the adapter serves
  kUpgrade,          ///< by the library of which the text is the path; empty: the installed one
  /// The adapter serves no longer, and has written all that the next one needs. The keeper ends it.
  kRetired,
};
inline constexpr std::size_t kMostText = 4096;

struct Call {
  std::uint32_t kind;  ///< CallKind
  std::uint32_t role;  ///< KeptRole
  std::uint64_t id;
  std::uint64_t bytes;
  // The text follows, up to kMostText bytes.
};
struct CallReply {
  std::int32_t error;  ///< 0, or an errno value
  std::uint32_t reserved;
  std::uint64_t id;  ///< of what is kept
};

// --- orders: one record each, without reply

enum class OrderKind : std::uint32_t {
  kRetire = 1,     ///< stop, and say kRetired
  kRefuseUpgrade,  ///< the upgrade that was asked for does not take place; the text says why
};
struct Order {
  std::uint32_t kind;  ///< OrderKind
  std::uint32_t reserved;
  // The text follows.
};

}  // namespace softhca::keeper
