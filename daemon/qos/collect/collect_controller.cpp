// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/collect/collect_controller.hpp"

#include <bit>
#include <cstring>

namespace softhca::collect {

Progress CollectController::kick(PcbId pcb) {
  Scoreboard& board = pool_.state(pcb).scoreboard;
  for (std::uint64_t missing = Scoreboard::kAll & ~board.bits(); missing != 0;
       missing &= missing - 1) {
    const auto segment = static_cast<std::size_t>(std::countr_zero(missing));
    std::memset(pool_.pcb(pcb).bytes() + segment * abi::kSegmentBytes, 0, abi::kSegmentBytes);
  }
  board.add(Scoreboard::kAll);
  return Progress::kKick;
}

std::uint32_t CollectController::abandon(VcbId first, std::uint32_t count) {
  std::uint32_t freed = 0;
  for (std::uint32_t i = first.value; i < first.value + count; ++i) {
    const PcbId pcb = functions_[VcbId(i)].pcb;
    if (pcb == kNoPcb) continue;
    discard(pcb);
    ++freed;
  }
  return freed;
}

}  // namespace softhca::collect
