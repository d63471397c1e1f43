// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/memfds.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "libverbs-provider/share/kernel.hpp"

namespace softhca::provider {
namespace {

constexpr std::uint64_t kPage = abi::kPageBytes;

/// The key of a piece, which no inode number is.
std::uint64_t piece_key(std::uint32_t machine, std::uint32_t handle) {
  return std::uint64_t{1} << 63 | std::uint64_t{machine} << 32 | handle;
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

bool MemfdTable::first_part(const Mapping& mapping, Mapping& part) const {
  if (!mapping.shared || mapping.begin >= mapping.end) return false;
  const FileIdentity file = file_of(mapping);
  const std::uint32_t machine = pieces_.machine_of(file);
  if (machine == PieceIndex::kNoMachine) {
    part = mapping;
    return file.device == device_.load(std::memory_order_acquire) &&
           by_inode_.find(file.inode) != kNowhere;
  }
  const std::uint64_t length = mapping.end - mapping.begin;
  const std::uint64_t last = (mapping.offset + length + kPage - 1) / kPage;
  PieceIndex::Block block{};
  if (!pieces_.find(machine, mapping.offset / kPage, last, block)) return false;
  const std::uint64_t first = std::max(block.first * kPage, mapping.offset);
  std::uint64_t end = block.end;
  while (end < last && pieces_.find(machine, end, end + 1, block)) end = block.end;
  const std::uint64_t begin = mapping.begin + (first - mapping.offset);
  part = clip(mapping, begin, begin + (end * kPage - first));
  return true;
}

bool MemfdTable::next_part(const Mapping& mapping, std::uint64_t from, MemfdPart& part) const {
  from = std::max(from, mapping.begin);
  if (!mapping.shared || from >= mapping.end) return false;
  const FileIdentity file = file_of(mapping);
  const std::uint32_t machine = pieces_.machine_of(file);
  const std::uint64_t offset = mapping.offset + (from - mapping.begin);
  if (machine == PieceIndex::kNoMachine) {
    const bool possible = file.device == device_.load(std::memory_order_relaxed);
    part = {from, mapping.end, offset, possible ? by_inode_.find(file.inode) : kNowhere};
    return part.place != kNowhere;
  }
  const std::uint64_t last = mapping.offset + (mapping.end - mapping.begin);
  PieceIndex::Block block{};
  if (!pieces_.find(machine, offset / kPage, (last + kPage - 1) / kPage, block)) return false;
  const std::uint32_t place = pieces_.piece_of(block);
  const Memfd& piece = by_inode_.at(place);
  const std::uint64_t begin_of_piece = piece.handle * kPage;
  const std::uint64_t begin = std::max(offset, begin_of_piece);
  const std::uint64_t end = std::min(last, piece.end_page() * kPage);
  part = {mapping.begin + (begin - mapping.offset), mapping.begin + (end - mapping.offset),
          begin - begin_of_piece, place};
  return true;
}

std::uint32_t MemfdTable::find(RegistryId owner, std::uint32_t handle) const {
  const std::uint32_t index = by_handle_.find(key_of(owner, handle));
  return index == kNowhere ? kNowhere : by_handle_.at(index);
}

std::uint32_t MemfdTable::insert(int fd, const Memfd& memfd) {
  const FileIdentity file = identity_of(fd);
  const dev_t device = device_.load(std::memory_order_relaxed);
  if (file.inode == 0 || (device != 0 && device != file.device)) return kNowhere;
  // The kernel reuses inode numbers; the memfd that had this one before no longer exists.
  if (const std::uint32_t stale = by_inode_.find(file.inode); stale != kNowhere) {
    if (at(stale).owner != kNoRegistry) return kNowhere;
    remove(stale);
  }
  if (by_handle_.size() >= by_handle_.kMost) return kNowhere;
  device_.store(file.device, std::memory_order_release);
  const std::uint32_t place = by_inode_.insert(file.inode, memfd);
  if (place == kNowhere) return kNowhere;
  at(place).seen = sweep_;
  by_handle_.insert(key_of(memfd.owner, memfd.handle), place);
  return place;
}

std::uint32_t MemfdTable::insert_piece(const FileIdentity& memory, const Memfd& piece) {
  const std::uint32_t machine = pieces_.add_machine(memory);
  if (machine == PieceIndex::kNoMachine || by_handle_.size() >= by_handle_.kMost) return kNowhere;
  const std::uint64_t key = piece_key(machine, piece.handle);
  if (by_inode_.find(key) != kNowhere) return kNowhere;
  const std::uint32_t place = by_inode_.insert(key, piece);
  if (place == kNowhere) return kNowhere;
  if (!pieces_.insert(machine, piece.handle, piece.end_page(), place)) {
    by_inode_.erase(place);
    return kNowhere;
  }
  at(place).machine = machine;
  at(place).seen = sweep_;
  by_handle_.insert(key_of(piece.owner, piece.handle), place);
  return place;
}

bool MemfdTable::remove(std::uint32_t place) {
  if (at(place).owner != kNoRegistry) disown(place);
  const Memfd& memfd = at(place);
  if (memfd.owner != kNoRegistry) return false;
  unlink_orphan(place);
  wiped_.forget(place);
  if (memfd.is_piece()) pieces_.erase(memfd.machine, memfd.handle, memfd.end_page());
  by_inode_.erase(place);
  return true;
}

void MemfdTable::unlink_orphan(std::uint32_t place) {
  const Memfd& memfd = at(place);
  (memfd.newer == kNowhere ? newest_orphan_ : at(memfd.newer).older) = memfd.older;
  if (memfd.older != kNowhere) at(memfd.older).newer = memfd.newer;
  --orphans_;
}

bool MemfdTable::is_piece_of(std::uint32_t place, const FileIdentity& memory) const {
  const Memfd& memfd = by_inode_.at(place);
  return memfd.is_piece() && memfd.machine == pieces_.machine_of(memory);
}

bool MemfdTable::adopt(std::uint32_t place, RegistryId registry) {
  Memfd& piece = at(place);
  if (by_handle_.insert(key_of(registry, piece.handle), place) == kNowhere) return false;
  unlink_orphan(place);
  piece.owner = registry;
  return true;
}

void MemfdTable::disown(std::uint32_t place) {
  Memfd& memfd = at(place);
  by_handle_.erase(by_handle_.find(key_of(memfd.owner, memfd.handle)));
  if (inherit(place)) return;
  leave_all(place);
  memfd.owner = kNoRegistry;
  memfd.uses = 0;
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
  pieces_.clear();
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
    for_each_part(mapping, [this](const MemfdPart& part) { at(part.place).seen = sweep_; });
  }
  return true;
}

}  // namespace softhca::provider
