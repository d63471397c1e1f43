// SPDX-License-Identifier: Apache-2.0

// All memfds of daemons that may be mapped in this process. There is one table for the process,
// because fork, madvise and mremap concern all of them. Each memfd belongs to a registry, or is an
// orphan.
//
// In a virtual machine, a piece of the machine's memory takes the place of a memfd. Its handle is
// the number of its first page, in all sessions. The piece belongs to the process until it is given
// back unmapped. So an orphan can be adopted.
//
// The table changes only under the process lock. first_part() needs no lock and allocates nothing,
// because allocators call madvise with their own locks held.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/session.hpp"
#include "libverbs-provider/share/fixed_hash_table.hpp"
#include "libverbs-provider/share/maps.hpp"
#include "libverbs-provider/share/piece_index.hpp"
#include "libverbs-provider/share/wiped.hpp"

namespace softhca::provider {

/// Number of a registry; never reused.
using RegistryId = std::uint32_t;
inline constexpr RegistryId kNoRegistry = 0;

struct Memfd {
  std::uint64_t bytes;
  RegistryId owner;       ///< kNoRegistry: the handle was given back (an orphan)
  std::uint32_t machine;  ///< number in the PieceIndex; kNoMachine: it is a memfd
  std::uint32_t handle;   ///< in the owner's session
  std::uint32_t uses;     ///< extents of regions in it
  std::uint32_t seen;     ///< number of the last sweep that found it mapped
  std::uint32_t older;    ///< neighbours in the owner's list of idle memfds, or that of orphans
  std::uint32_t newer;
  std::uint32_t joined;  ///< the first registry that has joined it

  bool is_piece() const { return machine != PieceIndex::kNoMachine; }
  std::uint64_t end_page() const { return handle + bytes / abi::kPageBytes; }  ///< of a piece
};

/// Addresses [begin, end) of a mapping, which are memory of one memfd.
struct MemfdPart {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t offset;  ///< of `begin` in the memfd
  std::uint32_t place;   ///< of the memfd in the MemfdTable
};

/// A registry that has or had regions in another registry's memfd.
struct Joined {
  RegistryId registry;
  std::uint32_t handle;  ///< in its session
  std::uint32_t uses;    ///< extents of its regions in the memfd
  std::uint32_t next;    ///< next one of the same memfd
};

class MemfdTable {
 public:
  static constexpr std::uint32_t kNowhere = 0xffffffff;

  /// The process's table.
  static MemfdTable& instance();

  /// Finds the first part of the mapping that is memory of memfds in the table. Lock-free.
  bool first_part(const Mapping& mapping, Mapping& part) const;
  bool empty() const { return by_inode_.empty(); }

  // The rest REQUIRES the process lock. The place in the table identifies a memfd.

  RegistryId new_registry() { return ++registries_; }

  /// Finds the first part of the mapping, at `from` or above, that is memory of one memfd.
  bool next_part(const Mapping& mapping, std::uint64_t from, MemfdPart& part) const;
  /// Calls visit(const MemfdPart&) for each part of the mapping.
  template <typename Visit>
  void for_each_part(const Mapping& mapping, Visit visit) const {
    MemfdPart part{};
    for (std::uint64_t at = mapping.begin; next_part(mapping, at, part); at = part.end) visit(part);
  }
  std::uint32_t find(RegistryId owner, std::uint32_t handle) const;
  Memfd& at(std::uint32_t place) { return by_inode_.at(place); }

  /// Adds a memfd; kNowhere if the table is full. `fd` is one that a daemon has just made.
  std::uint32_t insert(int fd, const Memfd& memfd);
  /// Adds a piece of a machine's memory; kNowhere if the table is full, or has the piece.
  std::uint32_t insert_piece(const FileIdentity& memory, const Memfd& piece);
  /// Removes a memfd that is not mapped. False: a registry that has joined it uses it, and has
  /// become the owner.
  bool remove(std::uint32_t place);
  /// True if the memfd is a piece of this machine's memory.
  bool is_piece_of(std::uint32_t place, const FileIdentity& memory) const;
  /// Makes the registry the owner of an orphan, which is a piece. False: the table is full.
  bool adopt(std::uint32_t place, RegistryId registry);
  /// Records that the handle was given back; mappings stay. If a registry has joined the memfd and
  /// uses it, it becomes the owner; else the memfd becomes an orphan.
  void disown(std::uint32_t place);
  /// Records that the session of the registry has ended.
  void disown_all(RegistryId registry);

  /// Returns the registry's entry; null: it has not joined the memfd.
  Joined* joined(std::uint32_t place, RegistryId registry);
  /// Adds the registry. False: the table is full. REQUIRES: it has not joined the memfd and is not
  /// its owner.
  bool join(std::uint32_t place, RegistryId registry, std::uint32_t handle);
  /// Removes the registry. REQUIRES: it has joined the memfd.
  void leave(std::uint32_t place, RegistryId registry);
  void clear();

  WipedParts& wiped() { return wiped_; }
  const WipedParts& wiped() const { return wiped_; }

  /// Reads all mappings of the process, counts them, and marks those of memfds in the table. False:
  /// not now. Each call pays for reading `worth` mappings, so that the cost per call does not
  /// depend on their number. Reading a few mappings takes as many system calls as a registration,
  /// so it needs the worth of many calls.
  bool sweep(std::uint64_t worth);
  /// True while the process has less than half of the mappings that the kernel allows it.
  bool has_room() const { return swept_ + split_ < most_mappings_; }
  /// Counts mappings that an exchange has added.
  void count_split(std::uint64_t mappings) { split_ += mappings; }
  /// True if the last sweep found the memfd. A sweep may miss a mapping that is moved meanwhile. If
  /// another process got a piece that is still mapped, memory would be corrupted. So for pieces
  /// this is true if one of the last two sweeps found it.
  bool marked(std::uint32_t place) {
    const Memfd& memfd = at(place);
    return sweep_ - memfd.seen <= (memfd.is_piece() ? 1u : 0u);
  }
  /// Returns the first orphan, or kNowhere. Memfd::older has the next one.
  std::uint32_t newest_orphan() const { return orphans_ != 0 ? newest_orphan_ : kNowhere; }

 private:
  void leave_all(std::uint32_t place);
  bool inherit(std::uint32_t place);
  void unlink_orphan(std::uint32_t place);

  static constexpr std::uint64_t kLeast = 4096;
  static constexpr std::uint32_t kSlots = 65536;  ///< a process has 65,530 mappings at most
  std::atomic<dev_t> device_{0};                  ///< of all memfds
  std::uint32_t registries_ = 0;
  std::uint32_t orphans_ = 0;
  std::uint32_t newest_orphan_ = 0;  ///< valid if orphans_ is not 0
  std::uint32_t sweep_ = 0;
  std::uint64_t swept_ = 0;  ///< mappings that the last sweep read
  std::uint64_t split_ = 0;  ///< made by exchanges since then
  std::uint64_t worth_ = 0;  ///< sum of `worth` since then
  std::uint64_t most_mappings_ = 0;
  WipedParts wiped_;
  PieceIndex pieces_;
  FixedHashTable<Memfd, kSlots> by_inode_;           ///< of a memfd; or piece_key()
  FixedHashTable<std::uint32_t, kSlots> by_handle_;  ///< places in by_inode_
  FixedHashTable<Joined, kSlots> joined_;            ///< by handle
};

}  // namespace softhca::provider
