// Memory of tenants that lies in memfds the daemon made (kAllocShared): the process maps it in
// place of its own pages, the daemon reaches it without system calls. Set-up path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "daemon/base/expected.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::memory {

class SharedBufferPool;

/// Kept alive by the regions on it (shared_ptr) and by its pool. Not to be destroyed on the
/// engine's thread, which would unmap the memory.
class SharedBuffer {
 public:
  /// `account` stands for whatever the owner wants to end with the buffer, `descriptor` for what
  /// ends with its descriptor. `unmap` takes the memory at the end, if it is not empty.
  explicit SharedBuffer(SealedMemory memory, std::shared_ptr<void> account = nullptr,
                        std::shared_ptr<void> descriptor = nullptr, Unmap unmap = {})
      : account_(std::move(account)),
        descriptor_(std::move(descriptor)),
        unmap_(std::move(unmap)),
        memory_(std::move(memory)) {}
  ~SharedBuffer() {
    if (unmap_) unmap_(std::move(memory_));
  }
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  std::size_t bytes() const { return memory_.bytes(); }
  std::uint64_t inode() const { return memory_.inode(); }

  /// Where [offset, offset + length) is mapped here; null when it is not wholly inside.
  std::byte* at(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes() || length > bytes() - offset) return nullptr;
    return memory_.base() + offset;
  }
  bool is_sealed() const { return memory_.fd() < 0; }
  /// From the first region on, a tenant cannot take pages away: the descriptor to be sealed
  /// (SealedMemory::seal_holes), with what is to end with it. REQUIRES: not is_sealed(), which it
  /// counts as from now on.
  std::pair<UniqueFd, std::shared_ptr<void>> to_seal() {
    return {memory_.take_fd(), std::move(descriptor_)};
  }

  /// Prepares what the process has filled of [offset, offset + length), so that accesses to it take
  /// no page faults (SealedMemory::map_present). REQUIRES: at() not null.
  void map_present(std::uint64_t offset, std::uint64_t length) const {
    memory_.map_present(offset, length);
  }

 private:
  friend class SharedBufferPool;
  std::shared_ptr<void> account_;
  std::shared_ptr<void> descriptor_;
  Unmap unmap_;
  SealedMemory memory_;                      ///< unmapped before the account ends
  std::uint32_t handle_ = 0;                 ///< in the pool
  std::size_t uses_ = 0;                     ///< that acquire() gave and that have not ended
  SharedBufferPool* pool_ = nullptr;         ///< null: it has forgotten the buffer
  std::list<SharedBuffer*>::iterator idle_;  ///< its place there, where it is idle
};

/// The shared buffers of one session. A buffer whose regions are gone is idle: it is kept for the
/// next registration of the same memory until somebody needs what it takes. Handles of buffers
/// given up are unknown from then on; the process shares that memory anew. Other pools may have
/// handles of a buffer: their regions use it as well, and it is idle when it has none at all. One
/// thread for all pools.
class SharedBufferPool {
 public:
  /// `budget`: bytes of all buffers of the session together. `unmap` takes the memory of buffers
  /// that end; empty: they unmap it themselves. `lock`: as SealedMemory::create() takes it.
  explicit SharedBufferPool(std::size_t budget, Unmap unmap = {}, LockMemory lock = {})
      : budget_(budget), unmap_(std::move(unmap)), lock_(std::move(lock)) {}
  ~SharedBufferPool();
  SharedBufferPool(const SharedBufferPool&) = delete;
  SharedBufferPool& operator=(const SharedBufferPool&) = delete;

  struct Created {
    std::uint32_t handle;
    int fd;  ///< to be sent; the buffer's, open until to_seal()
    std::uint64_t inode;
  };
  /// `account` ends with the buffer, `descriptor` with its descriptor. Errors: ENOMEM (budget),
  /// EINVAL (0 bytes), or what memfd_create and mmap say.
  Expected<Created> create(std::size_t bytes, std::shared_ptr<void> account = nullptr,
                           std::shared_ptr<void> descriptor = nullptr);

  /// Null when the handle is unknown.
  std::shared_ptr<SharedBuffer> find(std::uint32_t handle) const;
  /// A use of the buffer, to be kept by a region; null when the handle is unknown.
  std::shared_ptr<SharedBuffer> acquire(std::uint32_t handle);

  /// A handle here for a buffer of another pool, always the same one; it does not keep the buffer,
  /// and is unknown when the buffer has gone. Of a buffer of this pool: its handle.
  std::uint32_t join(const std::shared_ptr<SharedBuffer>& buffer);

  /// kFreeShared: forgets the buffer; its memory goes with its last region, if it is of this pool.
  /// False: unknown handle.
  bool free(std::uint32_t handle);
  /// As free(), for any handle there is. False: there is none.
  bool free_any();

  /// Gives up the buffer that has been idle for longest, with its account. REQUIRES: idle_count()
  /// != 0.
  void give_up_oldest();

  std::size_t idle_count() const { return idle_.size(); }
  std::size_t idle_bytes() const { return idle_bytes_; }

 private:
  struct EndOfUse;

  using Joined = std::weak_ptr<SharedBuffer>;

  std::uint32_t new_handle();
  void link_idle(SharedBuffer& buffer);
  void unlink_idle(SharedBuffer& buffer);
  void forget_gone();

  std::size_t budget_;
  Unmap unmap_;
  LockMemory lock_;
  std::size_t total_bytes_ = 0;
  std::size_t idle_bytes_ = 0;
  std::uint32_t next_handle_ = 1;
  std::unordered_map<std::uint32_t, std::shared_ptr<SharedBuffer>> buffers_;
  std::list<SharedBuffer*> idle_;  ///< the longest unused first
  // Those of other pools; the ones that have gone are forgotten now and then.
  std::unordered_map<std::uint32_t, Joined> joined_;
  std::map<Joined, std::uint32_t, std::owner_less<Joined>> joined_handles_;
  std::size_t forget_at_ = 16;  ///< when there are so many
};

}  // namespace softhca::memory
