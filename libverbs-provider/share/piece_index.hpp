// SPDX-License-Identifier: Apache-2.0

// Finds pieces of the memory of virtual machines. All pieces of a machine belong to one file, so
// only the offset of a mapping tells them apart. A mapping may begin within a piece, and may
// contain several pieces and other memory between them.
//
// A piece is entered once for each of its blocks. A block is an aligned power of two of pages, the
// largest possible ones. A search for a page tries each size of block.
//
// The index changes only under the process lock. machine_of() and find() need no lock and allocate
// nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "libverbs-provider/share/fixed_hash_table.hpp"
#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {

class PieceIndex {
 public:
  static constexpr std::uint32_t kNoMachine = 0;

  /// Pages [first, end) of the machine's memory.
  struct Block {
    std::uint64_t first;
    std::uint64_t end;
    std::uint32_t entry;
  };

  /// Returns the number of the machine with this memory, or kNoMachine. Lock-free.
  std::uint32_t machine_of(const FileIdentity& file) const;
  /// Finds the first block with pages of [page, end). Lock-free. REQUIRES: a machine's number.
  bool find(std::uint32_t machine, std::uint64_t page, std::uint64_t end, Block& block) const;

  // The rest REQUIRES the process lock.

  /// Returns the number that insert() gave the piece of the block.
  std::uint32_t piece_of(const Block& block) const { return blocks_.at(block.entry); }
  /// Returns the number of the machine, which is a new one if it had no pieces. kNoMachine: there
  /// are pieces of too many machines.
  std::uint32_t add_machine(const FileIdentity& file);
  /// Adds a piece of the machine. False: there are too many blocks, or one of its blocks is there.
  bool insert(std::uint32_t machine, std::uint64_t first, std::uint64_t end, std::uint32_t piece);
  void erase(std::uint32_t machine, std::uint64_t first, std::uint64_t end);
  void clear();

 private:
  static constexpr std::uint32_t kMachines = 4;
  static constexpr unsigned kSizes = 24;  ///< the largest block has 32 GiB
  static constexpr std::uint32_t kSlots = 65536;
  static constexpr std::uint32_t kNowhere = 0xffffffff;

  struct Machine {
    std::atomic<dev_t> device;
    std::atomic<ino_t> inode;          ///< 0: the entry is free
    std::atomic<std::uint64_t> first;  ///< all pieces were and are in [first, end)
    std::atomic<std::uint64_t> end;
    std::uint32_t pieces;
  };

  void remove_blocks(std::uint32_t machine, std::uint64_t first, std::uint64_t end);

  Machine machines_[kMachines]{};
  std::atomic<std::uint32_t> sizes_{0};  ///< bit i: there were blocks of 2^i pages
  FixedHashTable<std::uint32_t, kSlots> blocks_;
};

}  // namespace softhca::provider
