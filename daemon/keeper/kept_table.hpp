// SPDX-License-Identifier: Apache-2.0

// The descriptors and the memory that the keeper holds.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/keeper/handover.hpp"

namespace softhca::keeper {

/// The mappings stay until the end of the process.
class KeptTable {
 public:
  static constexpr std::size_t kMost = 1 << 17;  ///< entries

  /// Adds a descriptor, and a mapping of its first `bytes` unless these are 0. Returns 0 with `id`,
  /// or an errno value. EBADF: the descriptor is missing; EINVAL: the file has fewer bytes, or they
  /// are not whole pages; EMFILE: this process has nearly no descriptors left; ENOSPC: the table is
  /// full.
  int add(UniqueFd fd, std::uint64_t bytes, std::uint32_t role, std::uint64_t& id) {
    if (!fd) return EBADF;
    if (fd.get() >= most_descriptors()) return EMFILE;
    if (kept_.size() >= kMost) return ENOSPC;
    KeptEntry entry{.id = next_, .bytes = bytes, .address = nullptr, .fd = fd.get(), .role = role};
    if (bytes != 0)
      if (const int error = map(fd.get(), bytes, entry.address)) return error;
    id = next_++;
    kept_.emplace_hint(kept_.end(), id, Kept{std::move(fd), entry});
    return 0;
  }
  /// Returns 0, or ENOENT.
  int close_descriptor(std::uint64_t id) {
    const auto at = kept_.find(id);
    if (at == kept_.end()) return ENOENT;
    at->second.fd.reset();
    at->second.entry.fd = -1;
    return 0;
  }
  int drop(std::uint64_t id) {
    const auto at = kept_.find(id);
    if (at == kept_.end()) return ENOENT;
    const KeptEntry& entry = at->second.entry;
    if (entry.address != nullptr) ::munmap(entry.address, entry.bytes);
    kept_.erase(at);
    return 0;
  }

  std::vector<KeptEntry> entries() const {
    std::vector<KeptEntry> entries;
    entries.reserve(kept_.size());
    for (const auto& [id, kept] : kept_) entries.push_back(kept.entry);
    return entries;
  }

 private:
  static constexpr int kSpareDescriptors = 32;

  struct Kept {
    UniqueFd fd;
    KeptEntry entry;
  };

  /// Maps memory, without touching it: this process needs no page tables for it.
  static int map(int fd, std::uint64_t bytes, std::byte*& address) {
    struct stat file {};
    if (::fstat(fd, &file) != 0) return errno;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    if (!S_ISREG(file.st_mode) || bytes % page != 0 ||
        bytes > static_cast<std::uint64_t>(file.st_size))
      return EINVAL;
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return errno;
    address = static_cast<std::byte*>(at);
    return 0;
  }

  /// Returns the number from which on descriptors are not kept: the next adapter needs some to
  /// start.
  static int most_descriptors() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX)) - kSpareDescriptors;
  }

  std::map<std::uint64_t, Kept> kept_;  ///< by KeptEntry::id
  std::uint64_t next_ = 1;
};

}  // namespace softhca::keeper
