// SPDX-License-Identifier: Apache-2.0

// Memory registration without copies: private anonymous memory that an application registers
// becomes, in place, memory that the daemon maps, too. See docs/memory-registration.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/control.hpp"
#include "libverbs-provider/share/kernel.hpp"
#include "libverbs-provider/share/memfds.hpp"
#include "libverbs-provider/share/plan.hpp"
#include "libverbs-provider/share/replace.hpp"

namespace softhca::provider {

/// A memfd that the daemon made for this process (abi::Operation::kAllocShared), sealed against
/// resizing. In a virtual machine, a piece of the machine's memory.
struct SharedMemory {
  int fd;                    ///< the receiver closes it
  std::uint32_t handle;      ///< the daemon's handle in this session
  abi::MemoryPlace place{};  ///< of the piece; zeros: all of the memfd
};

/// A registry's functions for requests to the daemon. The process lock is held during all of them,
/// so they must not register memory or fork.
struct SharedMemorySource {
  void* context;
  /// Returns 0, or an errno value.
  int (*alloc)(void* context, std::uint64_t bytes, SharedMemory* memory);
  /// `unmapped`: the process does not map the memory any more, and never will.
  void (*free)(void* context, std::uint32_t handle, bool unmapped);
  /// Gets a token of the memory, by which other sessions of the process join it. Returns 0 or an
  /// errno value; ESTALE: the daemon has forgotten the memory. In a virtual machine there are no
  /// tokens: all sessions know a piece by the same handle.
  int (*name)(void* context, std::uint32_t handle, abi::SharedToken* token);
  int (*join)(void* context, const abi::SharedToken& token, std::uint32_t* handle);
  /// Called once a memfd will not be mapped again.
  void (*seal)(void* context, int fd);
  /// The memory of the virtual machine; zeros: each SharedMemory is a memfd.
  FileIdentity machine{};
};

/// Extents of one region: ascending, adjoining, covering it exactly.
class ExtentList {
 public:
  std::span<const abi::MrExtent> all() const { return {extents_, count_}; }

 private:
  friend class MemoryRegistry;
  abi::MrExtent extents_[abi::kMaxMrExtents];
  std::size_t count_ = 0;
  bool overflow_ = false;
};

/// The memory that one session shares with the daemon. Thread-safe.
class MemoryRegistry {
 public:
  struct Limits {
    /// Memory that no region uses stays shared up to this amount, so that registering it again
    /// costs nothing. Beyond it, the memory unused for longest is given back to the daemon first.
    std::uint64_t idle_bytes = 256 << 20;
    /// A larger region has several memfds, unless one message has no room for so many extents. The
    /// pages of a memfd are freed together, when it is no longer mapped. So this is the amount that
    /// exists twice while memory is shared anew.
    std::uint64_t memfd_bytes = 64 << 20;
    /// False: no memory is replaced.
    bool exchange = true;
  };

  /// Uses the default limits. SOFTHCA_SHARE=0 in the environment disables replacement.
  explicit MemoryRegistry(const SharedMemorySource& source);
  MemoryRegistry(const SharedMemorySource& source, const Limits& limits, const KernelCalls& kernel);
  /// Ends the session: handles become invalid; mappings stay and become private to the process.
  /// Does not call the source.
  ~MemoryRegistry();
  MemoryRegistry(const MemoryRegistry&) = delete;
  MemoryRegistry& operator=(const MemoryRegistry&) = delete;

  struct Request {
    std::uint64_t addr;
    std::uint64_t length;
    /// Peers or the program will write through the region, so read-only memory is refused.
    bool writable = false;
  };

  /// Shares the range as far as possible, and returns how the daemon reaches each byte. Returns 0
  /// or an errno value; then `extents` is empty. EFAULT: part of the range is not mapped as needed;
  /// EINVAL: it wraps around. REQUIRES: one release() of the same extents after each success.
  int prepare(const Request& request, ExtentList& extents);

  /// Releases the extents of a region that was deregistered, or could not be registered.
  void release(std::span<const abi::MrExtent> extents);

  /// As release(), for extents with handles that the daemon has forgotten. Memory that no other
  /// region uses is shared anew when it is registered again.
  void forget(std::span<const abi::MrExtent> extents);

  /// Returns the bytes of shared memory that no region uses.
  std::uint64_t idle_bytes() const { return idle_bytes_; }

  /// True if the process runs in a virtual machine.
  bool in_machine() const { return source_.machine != FileIdentity{}; }

 private:
  int share(const Request& request, ExtentList& extents);
  int make_plan(const Request& request);
  bool join_others();
  bool join(std::uint32_t place);
  bool join_piece(std::uint32_t place);
  void forget_handle(std::uint32_t place);
  std::uint32_t& uses(std::uint32_t place) const;
  std::uint64_t memfd_bytes(std::uint64_t length) const;
  void emit(const Request& request, ExtentList& extents);
  struct Emission;
  std::size_t emit_run(std::span<const Piece> rest, Emission& emission);
  std::uint64_t emit_memfd(std::span<const Piece> pieces, std::uint64_t begin, std::uint64_t end,
                           Emission& emission);
  void keep_from_growing(std::uint64_t begin, std::uint64_t length);
  bool obtain(std::uint64_t bytes, SharedMemory& memory);
  std::uint32_t accept(const SharedMemory& memory, std::uint64_t bytes) const;
  void append(Emission& emission, abi::MrExtent extent);
  void append(ExtentList& extents, const abi::MrExtent& extent);
  void release_locked(std::span<const abi::MrExtent> extents);
  void use(std::uint32_t place);
  void unuse(std::uint32_t place);
  void link_idle(std::uint32_t place);
  void unlink_idle(std::uint32_t place);
  void trim(std::uint64_t limit);
  void free_unmapped();
  bool give_back_unmapped();
  bool give_back_all_unmapped();
  void give_back(std::uint32_t place, bool still_mapped);

  const SharedMemorySource source_;
  const Limits limits_;
  const bool exchanges_;
  const KernelCalls* kernel_;
  Plan plan_;
  Replacer replacer_;
  const std::uint32_t generation_;
  MemoryRegistry* next_ = nullptr;  ///< list of all registries
  RegistryId id_ = kNoRegistry;
  std::uint64_t idle_bytes_ = 0;
  bool ran_short_ = false;  ///< the machine had no more memory for the last region
  std::uint32_t oldest_idle_ = MemfdTable::kNowhere;
  std::uint32_t newest_idle_ = MemfdTable::kNowhere;
};

}  // namespace softhca::provider
