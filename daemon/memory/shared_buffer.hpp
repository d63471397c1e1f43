// Memory of tenants that lies in memfds the daemon made (kAllocShared): the process maps it in
// place of its own pages, the daemon reaches it without system calls. Set-up path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "daemon/base/expected.hpp"
#include "daemon/base/sealed_memory.hpp"

namespace softhca::memory {

class SharedBufferPool;

/// Kept alive by the regions on it (shared_ptr) and by its pool. Destroying it unmaps the memory:
/// not on the engine's thread.
class SharedBuffer {
 public:
  /// `account` stands for whatever the owner wants to end with the mapping, `descriptor` for what
  /// ends with its descriptor.
  explicit SharedBuffer(SealedMemory memory, std::shared_ptr<void> account = nullptr,
                        std::shared_ptr<void> descriptor = nullptr)
      : account_(std::move(account)),
        descriptor_(std::move(descriptor)),
        memory_(std::move(memory)) {}

  std::size_t bytes() const { return memory_.bytes(); }
  std::uint64_t inode() const { return memory_.inode(); }

  /// Where [offset, offset + length) is mapped here; null when it is not wholly inside.
  std::byte* at(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes() || length > bytes() - offset) return nullptr;
    return memory_.base() + offset;
  }
  /// From the first region on, a tenant cannot take pages away (SealedMemory::seal_holes).
  Outcome seal_holes() {
    auto sealed = memory_.seal_holes();
    if (sealed) descriptor_.reset();
    return sealed;
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
  SealedMemory memory_;                      ///< unmapped before the account ends
  std::uint32_t handle_ = 0;                 ///< in the pool
  std::size_t uses_ = 0;                     ///< that acquire() gave and that have not ended
  SharedBufferPool* pool_ = nullptr;         ///< null: it has forgotten the buffer
  std::list<SharedBuffer*>::iterator idle_;  ///< its place there, where it is idle
};

/// The shared buffers of one session. A buffer whose regions are gone is idle: it is kept for the
/// next registration of the same memory until somebody needs what it takes. Handles of buffers
/// given up are unknown from then on; the process shares that memory anew. One thread.
class SharedBufferPool {
 public:
  /// Bytes of all buffers of the session together.
  explicit SharedBufferPool(std::size_t budget) : budget_(budget) {}
  ~SharedBufferPool();
  SharedBufferPool(const SharedBufferPool&) = delete;
  SharedBufferPool& operator=(const SharedBufferPool&) = delete;

  struct Created {
    std::uint32_t handle;
    int fd;  ///< to be sent; the buffer's, open until seal_holes()
    std::uint64_t inode;
  };
  /// `account` ends with the buffer, `descriptor` with its descriptor. Errors: ENOMEM (budget),
  /// EINVAL (0 bytes), or what memfd_create and mmap say.
  Expected<Created> create(std::size_t bytes, std::shared_ptr<void> account = nullptr,
                           std::shared_ptr<void> descriptor = nullptr);

  /// A use of the buffer, to be kept by a region; null when the handle is unknown.
  std::shared_ptr<SharedBuffer> acquire(std::uint32_t handle);

  /// kFreeShared: forgets the buffer; its memory goes with its last region. False: unknown handle.
  bool free(std::uint32_t handle);

  /// Gives up the buffer that has been idle for longest, with its account. REQUIRES: idle_count()
  /// != 0.
  void give_up_oldest();

  std::size_t idle_count() const { return idle_.size(); }
  std::size_t idle_bytes() const { return idle_bytes_; }

 private:
  struct EndOfUse;

  void link_idle(SharedBuffer& buffer);
  void unlink_idle(SharedBuffer& buffer);

  std::size_t budget_;
  std::size_t total_bytes_ = 0;
  std::size_t idle_bytes_ = 0;
  std::uint32_t next_handle_ = 1;
  std::unordered_map<std::uint32_t, std::shared_ptr<SharedBuffer>> buffers_;
  std::list<SharedBuffer*> idle_;  ///< the longest unused first
};

}  // namespace softhca::memory
