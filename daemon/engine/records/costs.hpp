// SPDX-License-Identifier: Apache-2.0

// Costs of the engine's work, in cost units. A unit is an eighth of a nanosecond, about the time
// that a local copy takes for a byte.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::engine {

inline constexpr std::uint64_t kUnitsPerNanosecond = 8;
inline constexpr double kUnitsPerSecond = 8e9;

/// To take in a command, to start it, and to give a queue pair a turn.
inline constexpr std::uint64_t kCommandCost = 2048;
inline constexpr std::uint64_t kStartCost = 64;
inline constexpr std::uint64_t kRunCost = 1024;
/// The steps of a message between queue pairs of this daemon; each of its bytes costs one unit
/// more.
inline constexpr std::uint64_t kLocalMessageCost = 1536;
/// A packet sent or received, and each byte of its payload, which is gathered or scattered, and
/// summed.
inline constexpr std::uint64_t kPacketCost = 4096;
inline constexpr std::uint64_t kPacketByteCost = 2;
constexpr std::uint64_t packet_cost(std::size_t payload) {
  return kPacketCost + kPacketByteCost * payload;
}
/// Returns what a message counts for minimum rates beyond its bytes. A message counts for at least
/// 4 KiB, since a shorter one takes about as much of the engine.
constexpr std::uint64_t beyond_bytes(std::size_t length) {
  constexpr std::size_t kLeast = 4096;
  return length < kLeast ? kLeast - length : 0;
}
/// A packet handed to its port, in a batch.
inline constexpr std::uint64_t kTransmitCost = 512;
/// A completion event: a system call.
inline constexpr std::uint64_t kEventCost = 4096;
/// A completion event that is handed over to the thread which makes the system call.
inline constexpr std::uint64_t kHandOverCost = 512;
/// A management datagram that is parsed and discarded.
inline constexpr std::uint64_t kDiscardCost = 1024;
/// A doorbell, or a VCB without a command; a doorbell that goes to the overflow buffer or comes
/// back.
inline constexpr std::uint64_t kDoorbellCost = 512;
inline constexpr std::uint64_t kReliefCost = 512;
/// A receive flushed in the error state.
inline constexpr std::uint64_t kFlushCost = 256;
/// A control request, with waking its caller; what each queue pair that is created or removed adds.
inline constexpr std::uint64_t kRequestCost = 32 << 10;
inline constexpr std::uint64_t kInstallCost = 64 << 10;
inline constexpr std::uint64_t kRemoveCost = 16 << 10;
/// A sweep over many queue pairs or shared receive queues: the cost of each of them.
inline constexpr std::uint64_t kSweepCost = 16;

}  // namespace softhca::engine
