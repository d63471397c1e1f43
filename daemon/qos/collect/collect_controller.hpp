// SPDX-License-Identifier: Apache-2.0

// Collect buffer controller: takes a command from a VCB into a PCB (mechanisms A4, A5, C).
//
// What the engine does for a VCB when its active bit has toggled:
//
//   pcb = begin(vcb)          Empty: send queue mode. When the segments of kDoorbellSegments have
//                             arrived, ring the doorbell (qpn, sequence + 1) and free the VCB.
//   copy new segments from the VCB into pool.pcb(pcb) (tenant_memory does that), then
//   add(pcb, scoreboard word) kCollecting: poll again later; begin() returns the same PCB.
//                             kKick: the command is complete and private.
//                             kBadLength: hostile; discard(pcb).
//   unbind(pcb)               The VCB is free for the next command. The PCB goes to the kick
//                             arbitrator; pool.free(pcb) releases it when its command ends.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "abi/session.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/collect/function_table.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"

namespace softhca::collect {

enum class Progress : std::uint8_t {
  kCollecting,  ///< segments are missing
  kKick,        ///< complete, or kicked explicitly
  kBadLength,   ///< the header claims more payload than a command can have
};

/// Segments with the queue pair number and the sequence number. In send queue mode the VCB must
/// have delivered them before a doorbell can replace it (A5).
inline constexpr std::uint64_t kDoorbellSegments = 0b11;

class CollectController {
 public:
  /// Both outlive the controller.
  CollectController(PcbPool& pool, FunctionTable& functions) : pool_(pool), functions_(functions) {}

  /// Returns the PCB that the VCB is bound to, or binds one. Returns nothing if none is available
  /// (send queue mode). REQUIRES: the VCB is assigned.
  OptionalPcb begin(VcbId vcb) {
    FunctionTable::Entry& entry = functions_[vcb];
    assert(entry.assigned());
    if (entry.pcb != kNoPcb) return entry.pcb;
    const auto pcb = pool_.allocate(entry.qos_class);
    if (!pcb) return std::nullopt;
    pool_.state(*pcb).vcb = vcb;
    entry.pcb = *pcb;
    return pcb;
  }

  /// Records segments that the caller has copied into the PCB. `word` is the scoreboard word of a
  /// VcbPage: 40 bits of segments and, perhaps, kExplicitKick. It may name segments that were not
  /// copied only if the length in the copied header leaves them unused. Every bit of it may be
  /// hostile; bits without a meaning are ignored.
  Progress add(PcbId pcb, std::uint64_t word) {
    Scoreboard& board = pool_.state(pcb).scoreboard;
    const bool had_length = board.has_length();
    board.add(word);
    if (!had_length && board.has_length()) {
      const abi::CommandHeader& header = pool_.pcb(pcb).header;
      if (header.payload_bytes > abi::kCommandPayloadBytes) return Progress::kBadLength;
      board.add(abi::unused_segments(header.payload_bytes));
      board.set_mask(abi::needless_segments(header));
    }
    const bool kicked = board.complete() || (word & abi::kExplicitKick) != 0;
    return kicked ? kick(pcb) : Progress::kCollecting;
  }

  /// Zeroes the segments that have not arrived, because they are masked or the kick is explicit. So
  /// no data of an earlier command, perhaps of another tenant, takes their place. Returns kKick.
  Progress kick(PcbId pcb);

  /// Unbinds the PCB from its VCB. REQUIRES: it is bound.
  void unbind(PcbId pcb) {
    PcbState& s = pool_.state(pcb);
    functions_[s.vcb].pcb = kNoPcb;
    s.vcb = kNoVcb;
  }

  /// Drops the command: unbind() and free.
  void discard(PcbId pcb) {
    unbind(pcb);
    pool_.free(pcb);
  }

  /// Discards what these VCBs were collecting; their process is gone. Commands that were kicked
  /// before are not affected. Returns how many PCBs were freed.
  std::uint32_t abandon(VcbId first, std::uint32_t count);

 private:
  PcbPool& pool_;
  FunctionTable& functions_;
};

}  // namespace softhca::collect
