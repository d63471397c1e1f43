// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/memfds.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "libverbs-provider/share/kernel.hpp"

namespace softhca::provider {
namespace {

std::uint64_t device_of(std::uint32_t device_major, std::uint32_t device_minor) {
  return std::uint64_t{device_major} << 32 | device_minor;
}

std::uint64_t key_of(RegistryId owner, std::uint32_t handle) {
  return std::uint64_t{owner} << 32 | handle;
}

std::uint64_t mappings_allowed() {
  constexpr std::uint64_t kDefault = 65530;
  const int fd = open_file("/proc/sys/vm/max_map_count", O_RDONLY);
  char text[32];
  const ssize_t got = fd >= 0 ? ::read(fd, text, sizeof text) : 0;
  if (fd >= 0) ::close(fd);
  std::uint64_t allowed = kDefault;
  if (got > 0) std::from_chars(text, text + got, allowed);
  return allowed;
}

}  // namespace

MemfdTable& MemfdTable::instance() {
  static constinit MemfdTable table;
  return table;
}

std::uint32_t MemfdTable::find(const Mapping& mapping) const {
  const std::uint64_t device = device_of(mapping.device_major, mapping.device_minor);
  const bool possible = mapping.shared && device == device_.load(std::memory_order_acquire);
  return possible ? by_inode_.find(mapping.inode) : kNowhere;
}

std::uint32_t MemfdTable::find(RegistryId owner, std::uint32_t handle) const {
  const std::uint32_t index = by_handle_.find(key_of(owner, handle));
  return index == kNowhere ? kNowhere : by_handle_.at(index);
}

std::uint32_t MemfdTable::insert(int fd, const Memfd& memfd) {
  struct stat file;
  if (::fstat(fd, &file) != 0) return kNowhere;
  const std::uint64_t device = device_of(major(file.st_dev), minor(file.st_dev));
  if (!empty() && device != device_.load(std::memory_order_relaxed)) return kNowhere;
  // The kernel reuses inode numbers; the memfd that had this one before no longer exists.
  if (const std::uint32_t stale = by_inode_.find(file.st_ino); stale != kNowhere) {
    if (at(stale).owner != kNoRegistry) return kNowhere;
    remove(stale);
  }
  if (by_handle_.size() >= by_handle_.kMost) return kNowhere;
  device_.store(device, std::memory_order_release);
  const std::uint32_t place = by_inode_.insert(file.st_ino, memfd);
  if (place == kNowhere) return kNowhere;
  at(place).seen = sweep_;
  by_handle_.insert(key_of(memfd.owner, memfd.handle), place);
  return place;
}

void MemfdTable::remove(std::uint32_t place) {
  if (at(place).owner != kNoRegistry) disown(place);
  const Memfd& memfd = at(place);
  if (memfd.owner != kNoRegistry) return;
  (memfd.newer == kNowhere ? newest_orphan_ : at(memfd.newer).older) = memfd.older;
  if (memfd.older != kNowhere) at(memfd.older).newer = memfd.newer;
  --orphans_;
  wiped_.forget(place);
  by_inode_.erase(place);
}

void MemfdTable::disown(std::uint32_t place) {
  Memfd& memfd = at(place);
  by_handle_.erase(by_handle_.find(key_of(memfd.owner, memfd.handle)));
  if (inherit(place)) return;
  leave_all(place);
  memfd.owner = kNoRegistry;
  memfd.newer = kNowhere;
  memfd.older = newest_orphan();
  if (memfd.older != kNowhere) at(memfd.older).newer = place;
  newest_orphan_ = place;
  ++orphans_;
}

/// Makes a registry with regions in the memfd its owner. False: there is none.
bool MemfdTable::inherit(std::uint32_t place) {
  Memfd& memfd = at(place);
  for (std::uint32_t i = memfd.joined; i != kNowhere; i = joined_.at(i).next) {
    const Joined heir = joined_.at(i);
    if (heir.uses == 0) continue;
    leave(place, heir.registry);
    by_handle_.insert(key_of(heir.registry, heir.handle), place);
    memfd.owner = heir.registry;
    memfd.handle = heir.handle;
    memfd.uses = heir.uses;
    return true;
  }
  return false;
}

void MemfdTable::disown_all(RegistryId registry) {
  for (std::uint32_t place = 0; place < kSlots; ++place) {
    if (!by_inode_.used(place)) continue;
    if (joined(place, registry) != nullptr) leave(place, registry);
    if (at(place).owner == registry) disown(place);
  }
}

Joined* MemfdTable::joined(std::uint32_t place, RegistryId registry) {
  for (std::uint32_t i = at(place).joined; i != kNowhere; i = joined_.at(i).next)
    if (joined_.at(i).registry == registry) return &joined_.at(i);
  return nullptr;
}

bool MemfdTable::join(std::uint32_t place, RegistryId registry, std::uint32_t handle) {
  const std::uint64_t key = key_of(registry, handle);
  if (by_handle_.find(key) != kNowhere) return false;
  if (by_handle_.insert(key, place) == kNowhere) return false;
  Memfd& memfd = at(place);
  memfd.joined = joined_.insert(key, {registry, handle, 0, memfd.joined});  // it cannot be full
  return true;
}

void MemfdTable::leave(std::uint32_t place, RegistryId registry) {
  std::uint32_t* link = &at(place).joined;
  while (joined_.at(*link).registry != registry) link = &joined_.at(*link).next;
  const std::uint32_t gone = *link;
  const std::uint64_t key = key_of(registry, joined_.at(gone).handle);
  *link = joined_.at(gone).next;
  joined_.erase(gone);
  by_handle_.erase(by_handle_.find(key));
}

void MemfdTable::leave_all(std::uint32_t place) {
  while (at(place).joined != kNowhere) leave(place, joined_.at(at(place).joined).registry);
}

void MemfdTable::clear() {
  orphans_ = 0;
  wiped_.clear();
  by_inode_.clear();
  by_handle_.clear();
  joined_.clear();
}

bool MemfdTable::sweep(std::uint64_t worth) {
  worth_ += worth;
  if (most_mappings_ != 0 && worth_ < (has_room() ? std::max(swept_, kLeast) : swept_))
    return false;
  MapsReader maps;
  if (!maps.ok()) return false;
  if (most_mappings_ == 0) most_mappings_ = mappings_allowed() / 2;
  ++sweep_;
  worth_ = swept_ = split_ = 0;
  Mapping mapping;
  for (; maps.next(mapping); ++swept_) {
    const std::uint32_t place = find(mapping);
    if (place != kNowhere) at(place).seen = sweep_;
  }
  return true;
}

void MemfdTable::forget_unmapped() {
  for (std::uint32_t place = newest_orphan(); place != kNowhere;) {
    const std::uint32_t next = at(place).older;
    if (!marked(place)) remove(place);
    place = next;
  }
}

}  // namespace softhca::provider
