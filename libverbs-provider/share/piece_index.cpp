// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/piece_index.hpp"

#include <algorithm>
#include <bit>

namespace softhca::provider {
namespace {

/// The block of 2^`size` pages from page `number` << `size` on.
std::uint64_t block_key(std::uint32_t machine, std::uint64_t number, unsigned size) {
  return std::uint64_t{machine} << 56 | std::uint64_t{size} << 50 | number;
}

/// Returns the size of the largest block that begins at `first` and does not extend beyond `end`,
/// as a power of two.
unsigned size_at(std::uint64_t first, std::uint64_t end, unsigned sizes) {
  const auto room = static_cast<unsigned>(std::bit_width(end - first)) - 1;
  return std::min({room, static_cast<unsigned>(std::countr_zero(first)), sizes - 1});
}

}  // namespace

std::uint32_t PieceIndex::machine_of(const FileIdentity& file) const {
  if (file.inode == 0) return kNoMachine;
  for (std::uint32_t i = 0; i < kMachines; ++i)
    if (machines_[i].inode.load(std::memory_order_relaxed) == file.inode &&
        machines_[i].device.load(std::memory_order_relaxed) == file.device)
      return i + 1;
  return kNoMachine;
}

bool PieceIndex::find(std::uint32_t machine, std::uint64_t page, std::uint64_t end,
                      Block& block) const {
  const std::uint32_t sizes = sizes_.load(std::memory_order_acquire);
  if (sizes == 0) return false;
  const int smallest = std::countr_zero(sizes);
  page = std::max(page, machines_[machine - 1].first.load(std::memory_order_relaxed));
  end = std::min(end, machines_[machine - 1].end.load(std::memory_order_relaxed));
  for (; page < end; page = ((page >> smallest) + 1) << smallest) {
    for (std::uint32_t left = sizes; left != 0; left &= left - 1) {
      const auto size = static_cast<unsigned>(std::countr_zero(left));
      const std::uint64_t number = page >> size;
      const std::uint32_t entry = blocks_.find(block_key(machine, number, size));
      if (entry == kNowhere) continue;
      block = {number << size, (number + 1) << size, entry};
      return true;
    }
  }
  return false;
}

std::uint32_t PieceIndex::add_machine(const FileIdentity& file) {
  const std::uint32_t known = machine_of(file);
  if (known != kNoMachine) return known;
  for (std::uint32_t i = 0; i < kMachines; ++i) {
    Machine& machine = machines_[i];
    if (machine.pieces != 0) continue;
    machine.first.store(~std::uint64_t{0}, std::memory_order_relaxed);
    machine.end.store(0, std::memory_order_relaxed);
    machine.device.store(file.device, std::memory_order_relaxed);
    machine.inode.store(file.inode, std::memory_order_relaxed);
    return i + 1;
  }
  return kNoMachine;
}

bool PieceIndex::insert(std::uint32_t machine, std::uint64_t first, std::uint64_t end,
                        std::uint32_t piece) {
  for (std::uint64_t at = first; at != end;) {
    const unsigned size = size_at(at, end, kSizes);
    const std::uint64_t key = block_key(machine, at >> size, size);
    if (blocks_.find(key) != kNowhere || blocks_.insert(key, piece) == kNowhere) {
      remove_blocks(machine, first, at);
      return false;
    }
    sizes_.fetch_or(1u << size, std::memory_order_release);
    at += std::uint64_t{1} << size;
  }
  Machine& entry = machines_[machine - 1];
  if (first < entry.first) entry.first.store(first, std::memory_order_relaxed);
  if (end > entry.end) entry.end.store(end, std::memory_order_relaxed);
  ++entry.pieces;
  return true;
}

void PieceIndex::erase(std::uint32_t machine, std::uint64_t first, std::uint64_t end) {
  remove_blocks(machine, first, end);
  Machine& entry = machines_[machine - 1];
  if (--entry.pieces == 0) entry.inode.store(0, std::memory_order_relaxed);
}

/// Removes the blocks of [first, end), which begins a piece.
void PieceIndex::remove_blocks(std::uint32_t machine, std::uint64_t first, std::uint64_t end) {
  while (first != end) {
    const unsigned size = size_at(first, end, kSizes);
    blocks_.erase(blocks_.find(block_key(machine, first >> size, size)));
    first += std::uint64_t{1} << size;
  }
}

void PieceIndex::clear() {
  blocks_.clear();
  for (Machine& machine : machines_) {
    machine.inode.store(0, std::memory_order_relaxed);
    machine.pieces = 0;
  }
  sizes_.store(0, std::memory_order_relaxed);
}

}  // namespace softhca::provider
