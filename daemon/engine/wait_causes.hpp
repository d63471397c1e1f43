// What send commands wait for, and for how long in all; and the stages that they go through.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/counter.hpp"
#include "daemon/base/histogram.hpp"

namespace softhca::engine {

/// Each names what would have to come for the command to go on. Where several would, it is the one
/// that the others wait for in turn.
enum class WaitCause : std::uint8_t {
  kEngine,            ///< a turn of the engine
  kNoVcb,             ///< likewise, by a doorbell, as the process had no VCB
  kNoPcb,             ///< a PCB of its class
  kKickList,          ///< room in the kick list of its TVL
  kExecutionCredit,   ///< of its TVL
  kCompletionCredit,  ///< of its TVL
  kRate,              ///< of its tenant, level, TVL or queue pair
  kPeerRate,          ///< of what its peer's tenant, level or queue pair is sent, or serves
  kMemory,            ///< of its tenant, or of its peer's: it is slow to reach (SlowMemory)
  kOrder,             ///< earlier commands of its queue pair: fence, reads under way, drain
  kReceiver,          ///< a receive of its peer
  kAcknowledgement,   ///< its peer's answer
  kCongestion,        ///< the pace that congestion notifications or losses have set
  kNeighbour,         ///< the link address of its next hop
  kPort,              ///< room in the port
  kCount,
};

/// Where a send command is between its posting and its end, in order. What was given back to its
/// send queue goes through some of them again, which counts as one time.
enum class CommandStage : std::uint8_t {
  kPost,         ///< posted, and the engine does not know of it
  kCollect,      ///< its doorbell is known: until it is in a PCB. Not of those that come by VCB
  kKick,         ///< in a kick list: until it has its credits
  kTransmit,     ///< until its first packet has gone; local delivery: until its copy begins
  kAcknowledge,  ///< until it is acknowledged whole and its completion is written, in one go
  kCount,
};

/// What is guaranteed to a class.
enum class Guarantee : std::uint8_t {
  kPcbs,
  kExecutionCredits,
  kCompletionCredits,
  kEngineTime,  ///< of a tenant: the part that its weight is of those at work
  kCount,
};

const char* name_of(WaitCause cause);
const char* name_of(CommandStage stage);
const char* name_of(Guarantee guarantee);

/// Written by the engine's thread, read by any.
struct WaitCounters {
  /// Time that commands have waited, by cause: the sum over all commands; ns.
  std::array<Counter, static_cast<std::size_t>(WaitCause::kCount)> time;
  Histogram duration;  ///< ns from kick to successful end, of some commands

  /// Time that single commands waited, by cause; ns. See WaitSamples.
  std::array<CoarseHistogram, static_cast<std::size_t>(WaitCause::kCount)> of_one;

  /// Time that single commands spent in each stage, of those that ended well; ns.
  std::array<CoarseHistogram, static_cast<std::size_t>(CommandStage::kCount)> in_stage;

  /// Time in which commands waited for something that their class is guaranteed; ns.
  std::array<Counter, static_cast<std::size_t>(Guarantee::kCount)> not_kept;

  void add(WaitCause cause, std::uint64_t ns) { time[static_cast<std::size_t>(cause)].add(ns); }
};

}  // namespace softhca::engine
