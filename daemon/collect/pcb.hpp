// Physical collect buffer (PCB): the adapter's private copy of a command (mechanism C1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/command.hpp"
#include "daemon/base/types.hpp"
#include "daemon/collect/scoreboard.hpp"

namespace softhca::collect {

inline constexpr VcbId kNoVcb{0xffffffff};
inline constexpr PcbId kNoPcb{0xffffffff};

/// Contents last from one use to the next, also between tenants: only segments that the scoreboard
/// shows may be read.
struct alignas(64) Pcb {
  abi::CommandHeader header;
  std::array<std::byte, abi::kCommandPayloadBytes> payload;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this); }
};
static_assert(sizeof(Pcb) == abi::kCommandBytes);
static_assert(offsetof(Pcb, payload) == abi::kCommandHeaderBytes);

inline bool is_inline(const Pcb& pcb) { return (pcb.header.flags & abi::kCommandInline) != 0; }
/// Its scatter/gather list. REQUIRES: it is not inline, and its header has been checked.
inline std::span<const abi::ScatterGather> entries_of(const Pcb& pcb) {
  return {reinterpret_cast<const abi::ScatterGather*>(pcb.payload.data()),
          pcb.header.payload_bytes / sizeof(abi::ScatterGather)};
}

enum class PcbUse : std::uint8_t { kFree, kPool, kDedicated };

/// What the adapter knows of a PCB, in a dense table of its own.
struct PcbState {
  Scoreboard scoreboard;
  VcbId vcb = kNoVcb;  ///< while it collects; kNoVcb afterwards and for dedicated PCBs
  QosClassId group = kNoQosClass;
  PcbUse use = PcbUse::kFree;
};

}  // namespace softhca::collect
