// Memory of tenants that lies in memfds the daemon made (kAllocShared): the process maps it in
// place of its own pages, the daemon reaches it without system calls. Set-up path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "daemon/base/expected.hpp"
#include "daemon/base/sealed_memory.hpp"

namespace softhca::memory {

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
  /// From the first region on a tenant cannot take pages away (SealedMemory::seal_holes).
  Outcome seal_holes() {
    auto sealed = memory_.seal_holes();
    if (sealed) descriptor_.reset();
    return sealed;
  }

  /// So that accesses to what the process has filled of [offset, offset + length) take no page
  /// faults (SealedMemory::map_present). REQUIRES: at() not null.
  void map_present(std::uint64_t offset, std::uint64_t length) const {
    memory_.map_present(offset, length);
  }

 private:
  friend class SharedBufferPool;
  std::shared_ptr<void> account_;
  std::shared_ptr<void> descriptor_;
  SealedMemory memory_;  ///< unmapped before the account ends
};

/// The shared buffers of one session. A buffer whose regions are gone is idle; idle ones are kept
/// for the next registration of the same memory, the least recently used given up first when they
/// exceed `idle_budget`. Handles of buffers given up are unknown from then on; the process falls
/// back to registering that memory as kProcess.
class SharedBufferPool {
 public:
  /// Bytes: of all buffers of the session together, and of the idle ones among them.
  SharedBufferPool(std::size_t total_budget, std::size_t idle_budget)
      : total_budget_(total_budget), idle_budget_(idle_budget) {}

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

  /// Gives up idle buffers over the budget; to be called after regions are gone.
  void trim();

  std::size_t idle_bytes() const;
  std::size_t total_bytes() const;  ///< of buffers the pool still knows

 private:
  struct Entry {
    std::shared_ptr<SharedBuffer> buffer;
    std::uint64_t last_use;  ///< 0: never, its first registration is still to come
    bool idle() const { return last_use != 0 && buffer.use_count() == 1; }
  };

  void give_up_idle(std::size_t keep_bytes);

  std::size_t total_budget_;
  std::size_t idle_budget_;
  std::uint32_t next_handle_ = 1;
  std::uint64_t use_clock_ = 0;
  std::unordered_map<std::uint32_t, Entry> entries_;
};

}  // namespace softhca::memory
