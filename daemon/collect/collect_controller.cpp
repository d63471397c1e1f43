#include "daemon/collect/collect_controller.hpp"

#include <bit>
#include <cassert>
#include <cstring>

namespace softhca::collect {

Progress CollectController::add_piece(PcbId pcb, unsigned first_segment,
                                      std::span<const std::byte> piece) {
  const std::size_t offset = first_segment * abi::kSegmentBytes;
  assert(piece.size() % abi::kSegmentBytes == 0 && offset + piece.size() <= abi::kCommandBytes);
  std::memcpy(pool_.pcb(pcb).bytes() + offset, piece.data(), piece.size());
  const auto segments = static_cast<unsigned>(piece.size() / abi::kSegmentBytes);
  return add(pcb, Scoreboard::range(first_segment, segments));
}

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
