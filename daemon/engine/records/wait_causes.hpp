// SPDX-License-Identifier: Apache-2.0

// The causes for which send commands wait, their total times, and the stages of a command.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/counter.hpp"
#include "daemon/base/histogram.hpp"

namespace softhca::engine {

/// Each cause names what the command needs to continue. If it needs several things, the cause is
/// the one for which the others wait in turn.
enum class WaitCause : std::uint8_t {
  kEngine,            ///< a turn of the engine
  kNoVcb,             ///< a turn of the engine; the process had no VCB and used a doorbell
  kNoPcb,             ///< a PCB of its class
  kKickList,          ///< room in the kick list of its TVL
  kExecutionCredit,   ///< of its TVL
  kCompletionCredit,  ///< of its TVL
  kRate,              ///< a rate of its tenant, level or queue pair
  kPeerRate,          ///< an inbound or served rate of its peer's tenant, level or queue pair
  kMemory,            ///< slow memory of its tenant or its peer's tenant (SlowMemory)
  kOrder,             ///< earlier commands of its queue pair: fence, reads in progress, drain
  kReceiver,          ///< a receive of its peer
  kAcknowledgement,   ///< its peer's answer
  kCongestion,        ///< the pace that congestion notifications or losses have set
  kNeighbour,         ///< the link address of its next hop
  kPort,              ///< room in the port
  kCount,
};

/// The stage of a send command between its posting and its end, in order. A command that was given
/// back to its send queue passes some stages again; the times add up.
enum class CommandStage : std::uint8_t {
  kPost,         ///< posted; the engine has not found it yet
  kCollect,      ///< from its doorbell until it is in a PCB; not for commands in VCBs
  kKick,         ///< in a kick list, until it has its credits
  kTransmit,     ///< until its first packet is sent; local delivery: until its copy begins
  kAcknowledge,  ///< until it is acknowledged completely and its completion is written
  kCount,
};

/// The guarantees of a class.
enum class Guarantee : std::uint8_t {
  kPcbs,
  kExecutionCredits,
  kCompletionCredits,
  kEngineTime,  ///< of a tenant: its weight as a part of the weights of active tenants
  kCount,
};

const char* name_of(WaitCause cause);
const char* name_of(CommandStage stage);
const char* name_of(Guarantee guarantee);

/// Written by the engine's thread, read by any thread.
struct WaitCounters {
  /// Time that commands have waited, by cause: the sum over all commands, in ns.
  std::array<Counter, static_cast<std::size_t>(WaitCause::kCount)> time;
  Histogram duration;  ///< ns from kick to successful end, of some commands

  /// Time that single commands waited, by cause, in ns. See WaitSamples.
  std::array<CoarseHistogram, static_cast<std::size_t>(WaitCause::kCount)> of_one;

  /// Time that single commands spent in each stage, in ns, for commands that succeeded.
  std::array<CoarseHistogram, static_cast<std::size_t>(CommandStage::kCount)> in_stage;

  /// Time in which commands waited for something that their class is guaranteed, in ns.
  std::array<Counter, static_cast<std::size_t>(Guarantee::kCount)> not_kept;

  void add(WaitCause cause, std::uint64_t ns) { time[static_cast<std::size_t>(cause)].add(ns); }
};

}  // namespace softhca::engine
