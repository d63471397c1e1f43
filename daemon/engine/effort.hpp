// What the engine's work is counted as, in bytes of a local copy that take as long, and how much of
// it is done before others have their turns. What moves bytes is counted beside them where it is
// done (engine_local.cpp, engine_wire.cpp).
#pragma once

#include "daemon/engine/engine.hpp"

namespace softhca::engine {

/// A command taken in and started; a queue pair looked at.
inline constexpr std::uint64_t kCommandEffort = 2048;
inline constexpr std::uint64_t kRunEffort = 1024;
/// A packet made or taken, without and with each byte of its payload: gathered or scattered,
/// summed.
inline constexpr std::uint64_t kPacketEffort = 4096;
inline constexpr std::uint64_t kPacketByteEffort = 2;
constexpr std::uint64_t packet_effort(std::size_t payload) {
  return kPacketEffort + kPacketByteEffort * payload;
}
/// What packets for it defer the turns of a party by, at most: or a flood from outside would keep
/// it from answering.
inline constexpr std::uint64_t kReceiveDebt = 1 << 20;
/// A doorbell, or a VCB that makes no command; a doorbell that goes to the overflow buffer or comes
/// back from there.
inline constexpr std::uint64_t kDoorbellEffort = 512;
inline constexpr std::uint64_t kReliefEffort = 512;
/// A control request, with waking who waits for it; what a queue pair adds that comes or goes.
inline constexpr std::uint64_t kRequestEffort = 32 << 10;
inline constexpr std::uint64_t kInstallEffort = 64 << 10;
inline constexpr std::uint64_t kRemoveEffort = 16 << 10;
/// A look at many queue pairs or shared receive queues, for each.
inline constexpr std::uint64_t kSweepEffort = 16;

// Work of one poll step and of one queue pair in it. A step is what a command that comes meanwhile
// has to wait for, so steps are short when tenants compete; long ones make larger bursts.
inline constexpr Engine::Portion kAlone{.effort = 512 << 10,
                                        .packets = 32,
                                        .bytes = 128 << 10,
                                        .intake = 128 << 10,
                                        .turn = 32 << 10,
                                        .starts = 64};
inline constexpr Engine::Portion kContended{.effort = 128 << 10,
                                            .packets = 8,
                                            .bytes = 16 << 10,
                                            .intake = 32 << 10,
                                            .turn = 8 << 10,
                                            .starts = 64};
// With a tenant that asks for little beside others that ask for much: what it waits for is one copy
// of this size, since after each queue pair the processes are looked at.
inline constexpr Engine::Portion kSparse{.effort = 64 << 10,
                                         .packets = 1,
                                         .bytes = 4 << 10,
                                         .intake = 8 << 10,
                                         .turn = 4 << 10,
                                         .starts = 16};

}  // namespace softhca::engine
