// Collect buffer controller: takes a command from a VCB into a PCB (mechanisms A4, A5, C).
//
// The engine's way through it, for a VCB whose active bit turned:
//
//   pcb = begin(vcb)          nothing: send queue mode. When the segments of kDoorbellSegments have
//                             arrived, ring the doorbell (qpn, sequence + 1), free the VCB.
//   copy new segments from the VCB into pool.pcb(pcb) (shm does that), then
//   add(pcb, scoreboard word) kCollecting: look again later, begin() returns the same PCB;
//                             kKick: the command is complete and private;
//                             kBadLength: hostile, discard(pcb).
//   unbind(pcb)               the VCB is free for the next command; the PCB goes on to the kick
//                             arbitrator and is given back by pool.free(pcb) when its command ends.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "abi/session.hpp"
#include "daemon/base/types.hpp"
#include "daemon/collect/function_table.hpp"
#include "daemon/collect/pcb_pool.hpp"

namespace softhca::collect {

enum class Progress : std::uint8_t {
  kCollecting,  ///< segments are missing
  kKick,        ///< complete, or kicked explicitly
  kBadLength,   ///< the header claims more payload than a command can have
};

/// Queue pair number and sequence number: what a VCB in send queue mode must have delivered to be
/// replaced by a doorbell (A5).
inline constexpr std::uint64_t kDoorbellSegments = 0b11;

class CollectController {
 public:
  /// Both outlive the controller.
  CollectController(PcbPool& pool, FunctionTable& functions) : pool_(pool), functions_(functions) {}

  /// The PCB this VCB is bound to; if none, one is looked for and bound. Nothing: none is available
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

  /// Records segments whose bytes the caller has put into the PCB. `word` is the scoreboard word of
  /// a VcbPage: 40 bits of segments and, perhaps, kExplicitKick. The bits may say more than was
  /// copied only for segments that the length in the copied header leaves unused. Every bit of it
  /// may be hostile: other bits are ignored.
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

  /// Segments that have not arrived, being masked or because the kick is explicit, become zero, so
  /// that nothing of an earlier command, perhaps of another tenant, takes their place. Returns
  /// kKick.
  Progress kick(PcbId pcb);

  /// Parts VCB and PCB. REQUIRES: bound.
  void unbind(PcbId pcb) {
    PcbState& s = pool_.state(pcb);
    functions_[s.vcb].pcb = kNoPcb;
    s.vcb = kNoVcb;
  }

  /// unbind() and free: the command is dropped.
  void discard(PcbId pcb) {
    unbind(pcb);
    pool_.free(pcb);
  }

  /// The process that used these VCBs is gone: discards what they were collecting. Commands kicked
  /// before are not touched. Returns how many PCBs were freed.
  std::uint32_t abandon(VcbId first, std::uint32_t count);

 private:
  PcbPool& pool_;
  FunctionTable& functions_;
};

}  // namespace softhca::collect
