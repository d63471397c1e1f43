// SPDX-License-Identifier: Apache-2.0

// Memory of tenants in memfds that the daemon created (kAllocShared). The process maps a memfd in
// place of its own pages, and the daemon reaches it without system calls. Set-up path only.
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

/// Kept alive by the regions that use it (shared_ptr) and by its pool. Do not destroy it on the
/// engine's thread: that would unmap the memory there.
class SharedBuffer {
 public:
  /// `account` is released with the buffer, and `descriptor` with its descriptor. If `unmap` is not
  /// empty, it gets the memory at the end.
  explicit SharedBuffer(SealedMemory memory, std::shared_ptr<void> account = nullptr,
                        std::shared_ptr<void> descriptor = nullptr, Unmap unmap = {})
      : account_(std::move(account)),
        descriptor_(std::move(descriptor)),
        unmap_(std::move(unmap)),
        memory_(std::move(memory)) {}
  /// The record in the account ends before the memory that it names.
  ~SharedBuffer() {
    account_.reset();
    if (unmap_) unmap_(std::move(memory_));
  }
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  std::size_t bytes() const { return memory_.bytes(); }
  std::uint64_t inode() const { return memory_.inode(); }
  KeptId kept() const { return memory_.kept(); }

  /// Returns the address of [offset, offset + length) here, or null if it is not wholly inside.
  std::byte* at(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes() || length > bytes() - offset) return nullptr;
    return memory_.base() + offset;
  }
  bool is_sealed() const { return memory_.fd() < 0; }
  /// Hands over the descriptor that is to be sealed (SealedMemory::seal_holes), and the object to
  /// be released with it. Called for the first region: from then on the tenant must not be able to
  /// remove pages. Afterwards is_sealed() is true. REQUIRES: not is_sealed().
  std::pair<DescriptorToSeal, std::shared_ptr<void>> to_seal() {
    return {memory_.take_to_seal(), std::move(descriptor_)};
  }

  /// Prepares the pages of [offset, offset + length) that the process has filled, so that accesses
  /// to them take no page faults (SealedMemory::map_present). REQUIRES: at() is not null.
  void map_present(std::uint64_t offset, std::uint64_t length) const {
    memory_.map_present(offset, length);
  }

 private:
  friend class SharedBufferPool;
  std::shared_ptr<void> account_;
  std::shared_ptr<void> descriptor_;
  Unmap unmap_;
  SealedMemory memory_;
  std::uint32_t handle_ = 0;                 ///< in the pool
  std::size_t uses_ = 0;                     ///< results of acquire() that still exist
  SharedBufferPool* pool_ = nullptr;         ///< null: the pool has dropped the buffer
  std::list<SharedBuffer*>::iterator idle_;  ///< its place in the pool's list while it is idle
};

/// The shared buffers of one session. A buffer without regions is idle: the pool keeps it for the
/// next registration of the same memory, until the session needs its bytes. The handle of a buffer
/// that was given up becomes unknown; the process then shares that memory again. Other pools may
/// have handles of a buffer, and their regions use it as well. It becomes idle when no region uses
/// it. All pools belong to one thread.
class SharedBufferPool {
 public:
  /// `budget`: bytes of all buffers of the session together. `unmap` gets the memory of buffers
  /// that end; if it is empty, they unmap it themselves. `lock`: as for SealedMemory::create().
  /// `keeping`: keeps the memory; null: none does.
  explicit SharedBufferPool(std::size_t budget, Unmap unmap = {}, LockMemory lock = {},
                            Keeping* keeping = nullptr)
      : budget_(budget), unmap_(std::move(unmap)), lock_(std::move(lock)), keeping_(keeping) {}
  ~SharedBufferPool();
  SharedBufferPool(const SharedBufferPool&) = delete;
  SharedBufferPool& operator=(const SharedBufferPool&) = delete;

  struct Created {
    std::uint32_t handle;
    int fd;  ///< to be sent; the buffer owns it and keeps it open until to_seal()
    std::uint64_t inode;
    KeptId kept;
  };
  /// `account` is released with the buffer, and `descriptor` with its descriptor. Errors: ENOMEM
  /// (budget), EINVAL (0 bytes), or those of memfd_create and mmap.
  Expected<Created> create(std::size_t bytes, std::shared_ptr<void> account = nullptr,
                           std::shared_ptr<void> descriptor = nullptr);

  /// Takes up a buffer that an earlier pool created, under its handle. If it is sealed, it
  /// is idle.
  /// `account` and `descriptor`: as for create(). Errors: EBADMSG, the handle is in use; those of
  /// SealedMemory::adopt().
  Outcome adopt(std::uint32_t handle, KeptId kept, std::shared_ptr<void> account,
                std::shared_ptr<void> descriptor);
  /// Gives no handle below `first` any more, since an earlier pool may have given it.
  void give_handles_from(std::uint32_t first) { next_handle_ = first; }
  /// Returns the handle that the next new buffer gets, or a smaller one.
  std::uint32_t next_handle() const { return next_handle_; }

  /// Returns null if the handle is unknown.
  std::shared_ptr<SharedBuffer> find(std::uint32_t handle) const;
  /// Returns a use of the buffer, which a region keeps; null if the handle is unknown.
  std::shared_ptr<SharedBuffer> acquire(std::uint32_t handle);
  /// Returns a use of a buffer.
  static std::shared_ptr<SharedBuffer> use(const std::shared_ptr<SharedBuffer>& buffer);

  /// Returns the handle in this pool of a buffer of another pool, always the same one. The handle
  /// does not keep the buffer alive, and becomes unknown when the buffer is gone. For a buffer of
  /// this pool, returns its own handle.
  std::uint32_t join(const std::shared_ptr<SharedBuffer>& buffer);

  /// kFreeShared: drops the handle. If the buffer is of this pool, its memory is released with its
  /// last region. Returns false if the handle is unknown.
  bool free(std::uint32_t handle);
  /// Same as free(), for any one handle. Returns false if there are none.
  bool free_any();

  /// Gives up the buffer that has been idle for longest, with its account. REQUIRES: idle_count()
  /// != 0.
  void give_up_oldest();

  std::size_t idle_count() const { return idle_.size(); }
  std::size_t idle_bytes() const { return idle_bytes_; }

 private:
  struct EndOfUse;

  using Joined = std::weak_ptr<SharedBuffer>;

  void add(std::uint32_t handle, SealedMemory memory, std::shared_ptr<void> account,
           std::shared_ptr<void> descriptor);
  std::uint32_t new_handle();
  void link_idle(SharedBuffer& buffer);
  void unlink_idle(SharedBuffer& buffer);
  void forget_gone();

  std::size_t budget_;
  Unmap unmap_;
  LockMemory lock_;
  Keeping* keeping_;
  std::size_t total_bytes_ = 0;
  std::size_t idle_bytes_ = 0;
  std::uint32_t next_handle_ = 1;
  std::unordered_map<std::uint32_t, std::shared_ptr<SharedBuffer>> buffers_;
  std::list<SharedBuffer*> idle_;  ///< longest idle first
  // Buffers of other pools. Entries of buffers that are gone are removed from time to time.
  std::unordered_map<std::uint32_t, Joined> joined_;
  std::map<Joined, std::uint32_t, std::owner_less<Joined>> joined_handles_;
  std::size_t forget_at_ = 16;  ///< removes those entries at this size of joined_
};

}  // namespace softhca::memory
