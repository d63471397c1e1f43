#include "libverbs-provider/share/memfds.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace softhca::provider {
namespace {

std::uint64_t device_of(std::uint32_t device_major, std::uint32_t device_minor) {
  return std::uint64_t{device_major} << 32 | device_minor;
}

std::uint64_t key_of(RegistryId owner, std::uint32_t handle) {
  return std::uint64_t{owner} << 32 | handle;
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
  // Inode numbers come back in the end; what had this one before is long gone.
  if (const std::uint32_t stale = by_inode_.find(file.st_ino); stale != kNowhere) {
    if (at(stale).owner != kNoRegistry) return kNowhere;
    remove(stale);
  }
  device_.store(device, std::memory_order_release);
  const std::uint32_t place = by_inode_.insert(file.st_ino, memfd);
  if (place == kNowhere) return kNowhere;
  at(place).seen = sweep_;
  by_handle_.insert(key_of(memfd.owner, memfd.handle), place);  // as large, and never fuller
  return place;
}

void MemfdTable::remove(std::uint32_t place) {
  if (at(place).owner != kNoRegistry) disown(place);
  const Memfd& memfd = at(place);
  (memfd.newer == kNowhere ? newest_orphan_ : at(memfd.newer).older) = memfd.older;
  if (memfd.older != kNowhere) at(memfd.older).newer = memfd.newer;
  --orphans_;
  wiped_.forget(place);
  by_inode_.erase(place);
}

void MemfdTable::disown(std::uint32_t place) {
  Memfd& memfd = at(place);
  by_handle_.erase(by_handle_.find(key_of(memfd.owner, memfd.handle)));
  memfd.owner = kNoRegistry;
  memfd.newer = kNowhere;
  memfd.older = newest_orphan();
  if (memfd.older != kNowhere) at(memfd.older).newer = place;
  newest_orphan_ = place;
  ++orphans_;
}

void MemfdTable::disown_all(RegistryId owner) {
  for (std::uint32_t place = 0; place < kSlots; ++place) {
    if (by_inode_.used(place) && at(place).owner == owner) disown(place);
  }
}

void MemfdTable::clear() {
  orphans_ = 0;
  wiped_.clear();
  by_inode_.clear();
  by_handle_.clear();
}

bool MemfdTable::sweep() {
  if (++calls_ * kMappingsPerCall < swept_) return false;
  MapsReader maps;
  if (!maps.ok()) return false;
  ++sweep_;
  calls_ = swept_ = 0;
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
