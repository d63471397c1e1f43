// SPDX-License-Identifier: Apache-2.0

// Physical collect buffer (PCB): the adapter's private copy of a command (mechanism C1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/command.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/collect/scoreboard.hpp"

namespace softhca::collect {

inline constexpr VcbId kNoVcb{0xffffffff};
inline constexpr PcbId kNoPcb{0xffffffff};

/// The contents survive from one use to the next, also between tenants. Read only segments that the
/// scoreboard shows.
struct alignas(64) Pcb {
  abi::CommandHeader header;
  std::array<std::byte, abi::kCommandPayloadBytes> payload;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this); }
};
static_assert(sizeof(Pcb) == abi::kCommandBytes);
static_assert(offsetof(Pcb, payload) == abi::kCommandHeaderBytes);

inline bool is_inline(const Pcb& pcb) { return (pcb.header.flags & abi::kCommandInline) != 0; }
/// Returns its scatter/gather list. REQUIRES: it is not inline, and its header has been checked.
inline std::span<const abi::ScatterGather> entries_of(const Pcb& pcb) {
  return {reinterpret_cast<const abi::ScatterGather*>(pcb.payload.data()),
          pcb.header.payload_bytes / sizeof(abi::ScatterGather)};
}

enum class PcbUse : std::uint8_t { kFree, kPool, kDedicated };

/// The adapter's state of a PCB, in a dense table separate from the PCBs.
struct PcbState {
  Scoreboard scoreboard;
  VcbId vcb = kNoVcb;  ///< while it collects; kNoVcb afterwards and for dedicated PCBs
  QosClassId group = kNoQosClass;
  PcbUse use = PcbUse::kFree;
};

}  // namespace softhca::collect
