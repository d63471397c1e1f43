// SPDX-License-Identifier: Apache-2.0

// Memory shared with a tenant: a memfd that the daemon makes, maps and seals. The seals prevent the
// tenant from shrinking it, which would make the daemon fault, and from giving pages back once the
// daemon uses it. Set-up path only, except base().
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/expected.hpp"
#include "daemon/base/keeping.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca {

/// Asks whether so many bytes may be locked. Returns an account that ends when they are unmapped,
/// or null if they may not be locked.
using LockMemory = std::function<std::shared_ptr<void>(std::size_t bytes)>;

/// The descriptor of memory that is to be sealed. Its end closes it, and the duplicate that is
/// kept.
class DescriptorToSeal {
 public:
  DescriptorToSeal() = default;
  DescriptorToSeal(UniqueFd fd, Keeping* keeping, KeptId kept)
      : fd_(std::move(fd)), keeping_(keeping), kept_(kept) {}
  DescriptorToSeal(DescriptorToSeal&& other) noexcept
      : fd_(std::move(other.fd_)), keeping_(other.keeping_), kept_(std::exchange(other.kept_, 0)) {}
  DescriptorToSeal& operator=(DescriptorToSeal&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(keeping_, other.keeping_);
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~DescriptorToSeal() {
    if (kept_ != 0) keeping_->close_descriptor(kept_);
  }

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
  Keeping* keeping_ = nullptr;
  KeptId kept_ = 0;
};

/// Memory of which others are pieces: the region of a virtual machine (tenant_memory/machine).
class PieceOwner {
 public:
  virtual ~PieceOwner() = default;
  PieceOwner(const PieceOwner&) = delete;
  PieceOwner& operator=(const PieceOwner&) = delete;

  /// The descriptor of the whole.
  virtual int fd() const = 0;
  /// Takes a piece back. Any thread may call it.
  virtual void take_back(std::uint64_t offset, std::size_t bytes) = 0;

 protected:
  PieceOwner() = default;
};

class SealedMemory {
 public:
  static constexpr std::size_t kPage = 4096;

  static constexpr std::size_t round_to_pages(std::size_t n) {
    return (n + kPage - 1) / kPage * kPage;
  }

  /// Makes zeroed memory of at least `bytes` (> 0), in whole pages. `name` appears in
  /// /proc/<pid>/maps. Pages that the daemon has touched are locked in memory, within the limit
  /// that `lock` keeps (empty: none) and the daemon's own. Error codes are errno values (EMFILE,
  /// ENOMEM, ...).
  static Expected<SealedMemory> create(const char* name, std::size_t bytes,
                                       const LockMemory& lock = {});
  /// Takes up memory that an earlier adapter kept. It has a descriptor if it is not sealed yet.
  /// Errors: EBADMSG, nothing with this number is kept.
  static Expected<SealedMemory> adopt(Keeping& keeping, KeptId kept, const LockMemory& lock = {});
  /// Does the same with the mapping that Keeping::memory() has returned.
  static SealedMemory adopt(Keeping& keeping, KeptId kept, std::span<std::byte> mapping,
                            const LockMemory& lock = {});

  /// Makes a piece of other memory, which it keeps alive. `kept`: names the piece for an adapter
  /// that follows; 0: none does. The owner keeps the piece, and seals it.
  static SealedMemory piece(std::shared_ptr<PieceOwner> owner, std::span<std::byte> memory,
                            std::uint64_t offset, KeptId kept) {
    SealedMemory m;
    m.base_ = memory.data();
    m.bytes_ = memory.size();
    m.owner_ = std::move(owner);
    m.piece_ = {.offset = offset, .bytes = memory.size()};
    m.kept_ = kept;
    return m;
  }

  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept { swap(other); }
  SealedMemory& operator=(SealedMemory&& other) noexcept {
    SealedMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~SealedMemory() {
    if (owner_ != nullptr) {
      owner_->take_back(piece_.offset, piece_.bytes);
      return;
    }
    end_keeping();
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }

  /// Where a piece lies in the memory of which it is a part.
  struct Piece {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;  ///< 0: it is not a piece
  };
  const Piece& piece() const { return piece_; }

  /// Makes it outlive this adapter. Does nothing if `keeping` is null. REQUIRES: no process has got
  /// the descriptor. Errors: as Keeping::keep_memory().
  Outcome keep(Keeping* keeping, KeptRole role = KeptRole::kNone);
  /// By which an adapter that follows adopts it. 0: it is not kept.
  KeptId kept() const { return kept_; }

  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t inode() const { return inode_; }

  /// The descriptor to send to the tenant, or -1 after one of the two below. Owned by this object.
  int fd() const {
    if (owner_ == nullptr) return fd_.get();
    return is_taken_ ? -1 : owner_->fd();
  }
  /// Takes the descriptor of memory that is not kept.
  UniqueFd take_fd() { return std::move(fd_); }
  /// Takes the descriptor. REQUIRES: the tenant has mapped the memory, and the engine uses it only
  /// once it is sealed. Empty: nothing is to be sealed.
  DescriptorToSeal take_to_seal() {
    is_taken_ = true;
    if (!fd_) return {};
    return {std::move(fd_), keeping_, kept_};
  }

  /// Seals the memory, so that no process can punch a hole in it or map it anew for writing. A page
  /// fault of the daemon on pages that a tenant gives back waits until all of them are freed, 0.2 s
  /// for a GiB. Errors: the tenant has forbidden further seals (EPERM).
  ///
  /// May block for as long as a tenant likes: one that also has the descriptor can write to the
  /// memory from pages of its own file system.
  static Outcome seal_holes(int fd);
  /// True if seal_holes() has succeeded for the memory in any process. Never blocks.
  static bool has_sealed_holes(int fd);

  /// Unmaps its first `bytes`, or all of it. The rest may only be unmapped. False: none is left.
  bool unmap(std::size_t bytes) {
    if (owner_ != nullptr) {
      SealedMemory ended(std::move(*this));
      return false;
    }
    end_keeping();
    const std::size_t first = std::min(bytes, bytes_);
    if (first != 0) ::munmap(base_, first);
    bytes_ -= first;
    base_ = bytes_ == 0 ? nullptr : base_ + first;
    return bytes_ != 0;
  }

  /// Zeroes [offset, offset + length) without giving its pages back. The kernel cannot give back
  /// locked pages; for others it would wait for what the tenant does with them.
  void clear(std::size_t offset, std::size_t length) { std::memset(base_ + offset, 0, length); }

  /// Builds the page table entries of the existing pages of [offset, offset + length), so that the
  /// data path takes no page faults there. Makes no pages, so memory that the tenant has not filled
  /// costs nothing. Best effort: kernels before 5.14 fault on first use. Takes 4 ms for each GiB
  /// without pages, 0.16 s for each GiB with them.
  void map_present(std::size_t offset, std::size_t length) const;

 private:
  static constexpr int kAgainstHoles = F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

  void swap(SealedMemory& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(inode_, other.inode_);
    std::swap(fd_, other.fd_);
    std::swap(locked_, other.locked_);
    std::swap(keeping_, other.keeping_);
    std::swap(kept_, other.kept_);
    std::swap(owner_, other.owner_);
    std::swap(piece_, other.piece_);
    std::swap(is_taken_, other.is_taken_);
  }
  void lock(const LockMemory& lock);
  void end_keeping() {
    if (kept_ != 0) keeping_->drop(std::exchange(kept_, 0));
  }

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t inode_ = 0;
  UniqueFd fd_;
  std::shared_ptr<void> locked_;  ///< null: not locked, or locked without an account
  Keeping* keeping_ = nullptr;
  KeptId kept_ = 0;
  std::shared_ptr<PieceOwner> owner_;  ///< null: it is not a piece
  Piece piece_;
  bool is_taken_ = false;  ///< the descriptor
};

/// Disposes of memory that is no longer used.
using Unmap = std::function<void(SealedMemory)>;

inline Expected<SealedMemory> SealedMemory::create(const char* name, std::size_t bytes,
                                                   const LockMemory& lock) {
  const auto failed = [&](const char* step) {
    const int code = errno;
    return Error{std::string("shared memory '") + name + "' of " + std::to_string(bytes) +
                     " bytes: " + step + ": " + std::strerror(code),
                 code};
  };
  SealedMemory m;
  const std::size_t size = round_to_pages(bytes);
  if (bytes == 0 || size < bytes) {
    errno = EINVAL;
    return failed("size");
  }
  m.fd_ = UniqueFd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = m.fd_.get();
  if (fd < 0) return failed("memfd_create");
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) return failed("ftruncate");
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return failed("F_ADD_SEALS");
  struct stat st;
  if (::fstat(fd, &st) != 0) return failed("fstat");
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return failed("mmap");
  m.base_ = static_cast<std::byte*>(at);
  m.bytes_ = size;
  m.inode_ = st.st_ino;
  m.lock(lock);
  return m;
}

/// Locks it, because the engine would otherwise wait for pages that a tenant short of memory has in
/// swap.
inline void SealedMemory::lock(const LockMemory& lock) {
  if (lock) locked_ = lock(bytes_);
  if (!lock || locked_ != nullptr) ::mlock2(base_, bytes_, MLOCK_ONFAULT);
}

inline Outcome SealedMemory::keep(Keeping* keeping, KeptRole role) {
  if (keeping == nullptr) return {};
  const auto kept = keeping->keep_memory(fd_.get(), bytes_, role);
  if (!kept) return kept.error();
  keeping_ = keeping;
  kept_ = *kept;
  return {};
}

inline Expected<SealedMemory> SealedMemory::adopt(Keeping& keeping, KeptId kept,
                                                  const LockMemory& lock) {
  const std::span<std::byte> mapping = keeping.memory(kept);
  if (mapping.empty())
    return Error{"memory " + std::to_string(kept) + ": not kept by the earlier adapter", EBADMSG};
  return adopt(keeping, kept, mapping, lock);
}

inline SealedMemory SealedMemory::adopt(Keeping& keeping, KeptId kept, std::span<std::byte> mapping,
                                        const LockMemory& lock) {
  SealedMemory m;
  m.base_ = mapping.data();
  m.bytes_ = mapping.size();
  m.keeping_ = &keeping;
  m.kept_ = kept;
  m.fd_ = keeping.descriptor(kept);
  struct stat st;
  if (m.fd_ && ::fstat(m.fd_.get(), &st) == 0) m.inode_ = st.st_ino;
  // Sealed by the process, or by the earlier adapter.
  if (m.fd_ && has_sealed_holes(m.fd_.get())) m.take_to_seal();
  m.lock(lock);
  return m;
}

inline Outcome SealedMemory::seal_holes(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, kAgainstHoles) != 0) {
    const int code = errno;
    return Error{std::string("F_SEAL_FUTURE_WRITE: ") + std::strerror(code), code};
  }
  return {};
}

inline bool SealedMemory::has_sealed_holes(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kAgainstHoles) == kAgainstHoles;
}

inline void SealedMemory::map_present(std::size_t offset, std::size_t length) const {
#ifdef MADV_POPULATE_WRITE
  std::array<unsigned char, 2048> present;
  const std::size_t end = round_to_pages(offset + length);
  for (std::size_t at = offset / kPage * kPage; at < end;) {
    const std::size_t pages = std::min((end - at) / kPage, present.size());
    if (::mincore(base_ + at, pages * kPage, present.data()) != 0) return;
    for (std::size_t first = 0, last = 0; first < pages; first = last) {
      const bool there = (present[first] & 1) != 0;
      while (last < pages && ((present[last] & 1) != 0) == there) ++last;
      if (there) ::madvise(base_ + at + first * kPage, (last - first) * kPage, MADV_POPULATE_WRITE);
    }
    at += pages * kPage;
  }
#else
  (void)offset, (void)length;
#endif
}

}  // namespace softhca
