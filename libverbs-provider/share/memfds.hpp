// Every memfd of a daemon that may be mapped in this process. One table for the process, because
// fork, madvise and mremap concern them all; each belongs to a registry, or to nobody any more.
//
// It changes only under the process lock. contains() needs no lock and allocates nothing:
// allocators call madvise with their own locks held.
#pragma once

#include <atomic>
#include <cstdint>

#include "libverbs-provider/share/key_table.hpp"
#include "libverbs-provider/share/maps.hpp"
#include "libverbs-provider/share/wiped.hpp"

namespace softhca::provider {

/// Number of a registry; never given twice.
using RegistryId = std::uint32_t;
inline constexpr RegistryId kNoRegistry = 0;

struct Memfd {
  std::uint64_t bytes;
  RegistryId owner;      ///< kNoRegistry: the handle has been given back ("orphan")
  std::uint32_t handle;  ///< in the owner's session
  std::uint32_t uses;    ///< extents of regions that lie in it
  std::uint32_t seen;    ///< number of the last sweep that found it mapped
  std::uint32_t older;   ///< neighbours in the owner's list of idle memfds, or that of orphans
  std::uint32_t newer;
  std::uint32_t joined;  ///< the first of the registries that have joined it
};

/// A registry that has regions in another's memfd, or had.
struct Joined {
  RegistryId registry;
  std::uint32_t handle;  ///< in its session
  std::uint32_t uses;    ///< extents of its regions that lie in the memfd
  std::uint32_t next;    ///< of the same memfd
};

class MemfdTable {
 public:
  static constexpr std::uint32_t kNowhere = 0xffffffff;

  /// The process's table.
  static MemfdTable& instance();

  /// Lock-free. True if the mapping is a shared one of a memfd in the table.
  bool contains(const Mapping& mapping) const { return find(mapping) != kNowhere; }
  bool empty() const { return by_inode_.empty(); }

  // The rest under the process lock. A memfd is known by its place in the table.

  RegistryId new_registry() { return ++registries_; }

  std::uint32_t find(const Mapping& mapping) const;
  std::uint32_t find(RegistryId owner, std::uint32_t handle) const;
  Memfd& at(std::uint32_t place) { return by_inode_.at(place); }

  /// kNowhere when the table is full. `fd` is one just made by a daemon.
  std::uint32_t insert(int fd, const Memfd& memfd);
  void remove(std::uint32_t place);
  /// The handle is given back, mappings stay. A registry that has joined it and uses it is the
  /// owner from now on; if there is none, nobody is.
  void disown(std::uint32_t place);
  /// The registry's session has ended.
  void disown_all(RegistryId registry);

  /// Null: it has not joined the memfd.
  Joined* joined(std::uint32_t place, RegistryId registry);
  /// False when the table is full. REQUIRES: it has not, and is not the owner.
  bool join(std::uint32_t place, RegistryId registry, std::uint32_t handle);
  /// REQUIRES: it has joined.
  void leave(std::uint32_t place, RegistryId registry);
  void clear();

  WipedParts& wiped() { return wiped_; }
  const WipedParts& wiped() const { return wiped_; }

  /// Goes through all mappings of the process, counts them, and marks those of our memfds. False:
  /// not now. Each call is worth a look at so many mappings, so that however many there are costs a
  /// caller the same; and a look at few of them, which is as many system calls as a registration
  /// takes, is worth many calls.
  bool sweep(std::uint64_t worth);
  /// True while the process has less than half of the mappings that the kernel allows it.
  bool has_room() const { return swept_ + split_ < most_mappings_; }
  /// So many mappings have come to be by an exchange.
  void count_split(std::uint64_t mappings) { split_ += mappings; }
  bool marked(std::uint32_t place) { return at(place).seen == sweep_; }
  /// Forgets the orphans that the last sweep did not find.
  void forget_unmapped();
  bool has_orphans() const { return orphans_ != 0; }

 private:
  void leave_all(std::uint32_t place);
  bool inherit(std::uint32_t place);
  std::uint32_t newest_orphan() const { return orphans_ != 0 ? newest_orphan_ : kNowhere; }

  static constexpr std::uint64_t kLeast = 4096;
  static constexpr std::uint32_t kSlots = 65536;  ///< a process has 65,530 mappings at most
  std::atomic<std::uint64_t> device_{0};          ///< of all memfds: major << 32 | minor
  std::uint32_t registries_ = 0;
  std::uint32_t orphans_ = 0;
  std::uint32_t newest_orphan_ = 0;  ///< if there is one
  std::uint32_t sweep_ = 0;
  std::uint64_t swept_ = 0;  ///< mappings that the last sweep went through
  std::uint64_t split_ = 0;  ///< made by exchanges since then
  std::uint64_t worth_ = 0;  ///< of the calls since then
  std::uint64_t most_mappings_ = 0;
  WipedParts wiped_;
  KeyTable<Memfd, kSlots> by_inode_;
  KeyTable<std::uint32_t, kSlots>
      by_handle_;                    ///< places in by_inode_, of owner's handles and others
  KeyTable<Joined, kSlots> joined_;  ///< by handle
};

}  // namespace softhca::provider
