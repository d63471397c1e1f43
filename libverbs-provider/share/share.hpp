// Memory registration without copies: whatever private anonymous memory an application registers
// becomes, in place, memory that the daemon maps too. See docs/memory-registration.md.
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

/// A memfd the daemon made for us (abi::Operation::kAllocShared), sealed against resizing.
struct SharedMemory {
  int fd;                ///< the receiver closes it
  std::uint32_t handle;  ///< what the daemon calls it in this session
};

/// How a registry asks the daemon. All are called with the process lock held: they must not
/// register memory or fork.
struct SharedMemorySource {
  void* context;
  /// Returns 0, or an errno value.
  int (*alloc)(void* context, std::uint64_t bytes, SharedMemory* memory);
  void (*free)(void* context, std::uint32_t handle);
  /// Gives memory a name, by which other sessions of the process join it. 0 or an errno value;
  /// ESTALE: the daemon has forgotten it.
  int (*name)(void* context, std::uint32_t handle, abi::SharedToken* token);
  int (*join)(void* context, const abi::SharedToken& token, std::uint32_t* handle);
  /// All of the memory is mapped that ever will be.
  void (*seal)(void* context, int fd);
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

/// The memory one session shares with the daemon. Thread-safe.
class MemoryRegistry {
 public:
  struct Limits {
    /// Memory that no region uses any more stays shared up to this much, so that registering it
    /// again costs nothing; beyond that, what was unused for longest is given back to the daemon
    /// first.
    std::uint64_t idle_bytes = 256 << 20;
    /// A larger region has several memfds, unless their number would exceed what one message has
    /// room for. The pages of a memfd go all at once, when nobody maps it any more: where memory
    /// is shared anew, so much of it is there twice.
    std::uint64_t memfd_bytes = 64 << 20;
    /// False: memory is left, whatever it is.
    bool exchange = true;
  };

  /// With the limits above; SOFTHCA_SHARE=0 in the environment has all memory left.
  explicit MemoryRegistry(const SharedMemorySource& source);
  MemoryRegistry(const SharedMemorySource& source, const Limits& limits, const KernelCalls& kernel);
  /// The session is over: handles are void, mappings stay and are private to the process. Does
  /// not call the source.
  ~MemoryRegistry();
  MemoryRegistry(const MemoryRegistry&) = delete;
  MemoryRegistry& operator=(const MemoryRegistry&) = delete;

  struct Request {
    std::uint64_t addr;
    std::uint64_t length;
    /// Peers or the program will write by the region: memory that is mapped read-only is refused.
    bool writable = false;
  };

  /// Shares what can be shared of the range, and tells how the daemon reaches every byte. Returns
  /// 0; EFAULT if part of the range is not mapped as needed, EINVAL if it wraps around: then
  /// `extents` is empty. Each success is to be followed by one release() of the same extents.
  int prepare(const Request& request, ExtentList& extents);

  /// The region with these extents is deregistered (or never came to be).
  void release(std::span<const abi::MrExtent> extents);

  /// As release(), and the daemon has forgotten handles of these extents: what no other region uses
  /// is shared anew when it is registered again.
  void forget(std::span<const abi::MrExtent> extents);

  /// Bytes of shared memory held that no region uses.
  std::uint64_t idle_bytes() const { return idle_bytes_; }

 private:
  int make_plan(const Request& request);
  bool join_others();
  bool join(std::uint32_t place);
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
  bool accept(const SharedMemory& memory, std::uint64_t bytes);
  void append(Emission& emission, abi::MrExtent extent);
  void append(ExtentList& extents, const abi::MrExtent& extent);
  void release_locked(std::span<const abi::MrExtent> extents);
  void use(std::uint32_t place);
  void unuse(std::uint32_t place);
  void link_idle(std::uint32_t place);
  void unlink_idle(std::uint32_t place);
  void trim(std::uint64_t limit);
  void free_unmapped();
  void give_back(std::uint32_t place, bool still_mapped);

  const SharedMemorySource source_;
  const Limits limits_;
  const bool exchanges_;
  const KernelCalls* kernel_;
  Plan plan_;
  Replacer replacer_;
  const std::uint32_t generation_;
  MemoryRegistry* next_ = nullptr;  ///< of all that there are
  RegistryId id_ = kNoRegistry;
  std::uint64_t idle_bytes_ = 0;
  std::uint32_t oldest_idle_ = MemfdTable::kNowhere;
  std::uint32_t newest_idle_ = MemfdTable::kNowhere;
};

}  // namespace softhca::provider
