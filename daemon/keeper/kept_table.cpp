// SPDX-License-Identifier: Apache-2.0

#include "daemon/keeper/kept_table.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace softhca::keeper {
namespace {

constexpr int kSpareDescriptors = 32;

/// Maps memory, without touching it: this process needs no page tables for it.
int map(int fd, std::uint64_t bytes, std::byte*& address) {
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

/// Returns the number from which on descriptors are not kept: the next adapter needs some to start.
int most_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX)) - kSpareDescriptors;
}

}  // namespace

int KeptTable::add(UniqueFd fd, std::uint64_t bytes, std::uint32_t role, std::uint64_t& id) {
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

int KeptTable::close_descriptor(std::uint64_t id) {
  const auto at = kept_.find(id);
  if (at == kept_.end()) return ENOENT;
  at->second.fd.reset();
  at->second.entry.fd = -1;
  return 0;
}

int KeptTable::drop(std::uint64_t id) {
  const auto at = kept_.find(id);
  if (at == kept_.end()) return ENOENT;
  const KeptEntry& entry = at->second.entry;
  if (entry.address != nullptr) ::munmap(entry.address, entry.bytes);
  kept_.erase(at);
  return 0;
}

std::vector<KeptEntry> KeptTable::entries() const {
  std::vector<KeptEntry> entries;
  entries.reserve(kept_.size());
  for (const auto& [id, kept] : kept_) entries.push_back(kept.entry);
  return entries;
}

}  // namespace softhca::keeper
