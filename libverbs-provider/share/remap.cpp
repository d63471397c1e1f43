// SPDX-License-Identifier: Apache-2.0

// mremap, where it treats shared memory differently from private memory: a memfd does not grow with
// its mapping, and moved pages stay visible in the old place. Also where the kernel refuses to move
// a range as a whole because a part of it has been shared.
#include <sys/mman.h>

#include <cerrno>

#include "libverbs-provider/share/hooks.hpp"
#include "libverbs-provider/share/kernel.hpp"
#include "libverbs-provider/share/ours.hpp"
#include "libverbs-provider/share/process.hpp"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace softhca::provider {
namespace {

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

char* pointer(std::uint64_t addr) { return reinterpret_cast<char*>(addr); }

/// Finds the mapping of the last byte of [addr, end). False: a part is not mapped.
bool last_mapping(std::uint64_t addr, std::uint64_t end, Mapping& mapping) {
  MapsReader maps(addr);
  while (maps.next(mapping) && mapping.begin <= addr) {
    if (mapping.end >= end) return true;
    addr = mapping.end;
  }
  return false;
}

/// Moves the mappings of [from, end) one by one to `to`, where there is room. Returns the address
/// at which it stopped.
std::uint64_t move_mappings(std::uint64_t from, std::uint64_t end, std::uint64_t to) {
  std::uint64_t at = from;
  while (at != end) {
    MapsReader maps(at);
    Mapping mapping;
    if (!maps.next(mapping) || mapping.begin > at) break;
    const std::uint64_t length = std::min(mapping.end, end) - at;
    if (KernelCalls::real().move(pointer(at), length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
                                 pointer(to + (at - from))) == MAP_FAILED)
      break;
    at += length;
  }
  return at;
}

/// Moves [addr, addr+length) to `target`, or to any free place if that is null, and extends it to
/// `new_length` by memory like that at its end.
void* move_all(std::uint64_t addr, std::uint64_t length, std::uint64_t new_length, void* target) {
  Mapping last;
  if (!last_mapping(addr, addr + length, last)) {
    errno = EFAULT;
    return MAP_FAILED;
  }
  void* room = ::mmap(target, new_length, protection_of(last),
                      kPrivate | (target != nullptr ? MAP_FIXED : 0), -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  const auto to = reinterpret_cast<std::uint64_t>(room);
  const std::uint64_t stopped = move_mappings(addr, addr + length, to);
  if (stopped == addr + length) return room;
  move_mappings(to, to + (stopped - addr), addr);
  ::munmap(room, new_length);
  errno = ENOMEM;
  return MAP_FAILED;
}

/// Extends the range in place, if there is room behind it.
bool grow_there(std::uint64_t addr, std::uint64_t length, std::uint64_t new_length) {
  Mapping last;
  if (!last_mapping(addr, addr + length, last)) return false;
  void* wanted = pointer(addr + length);
  void* more = ::mmap(wanted, new_length - length, protection_of(last),
                      kPrivate | MAP_FIXED_NOREPLACE, -1, 0);
  if (more == wanted) return true;
  if (more != MAP_FAILED) ::munmap(more, new_length - length);  // kernels before 4.17
  return false;
}

void* grow(std::uint64_t addr, std::uint64_t length, std::uint64_t new_length,
           const MemoryHooks::Remap& request) {
  const bool fixed = (request.flags & MREMAP_FIXED) != 0;
  if (!fixed && grow_there(addr, length, new_length)) return request.addr;
  if ((request.flags & MREMAP_MAYMOVE) == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return move_all(addr, length, new_length, fixed ? request.new_addr : nullptr);
}

/// Moves the range and empties its old place, where the kernel would still show the memfd.
void* move_aside(std::uint64_t addr, std::uint64_t length, const MemoryHooks::Remap& request) {
  void* moved = KernelCalls::real().move(request.addr, request.old_length, request.new_length,
                                         request.flags, request.new_addr);
  if (moved == MAP_FAILED) return moved;
  for_each_of_ours(addr, addr + length, [](const Mapping& mapping) {
    ::mmap(pointer(mapping.begin), mapping.end - mapping.begin, protection_of(mapping),
           kPrivate | MAP_FIXED, -1, 0);
  });
  return moved;
}

bool overlap(std::uint64_t a, std::uint64_t b, std::uint64_t length) {
  return a < b + length && b < a + length;
}

/// True unless the kernel would refuse the request for private memory, too.
bool well_formed(const MemoryHooks::Remap& request, std::uint64_t longest) {
  const auto from = reinterpret_cast<std::uint64_t>(request.addr);
  const auto to = reinterpret_cast<std::uint64_t>(request.new_addr);
  const bool fixed = (request.flags & MREMAP_FIXED) != 0;
  if ((request.flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) != 0) return false;
  if (fixed && (request.flags & MREMAP_MAYMOVE) == 0) return false;
  if (from != page_end(from) || from + longest < from) return false;
  return !fixed || (to == page_end(to) && to + longest >= to && !overlap(from, to, longest));
}

}  // namespace

bool remap(const MemoryHooks::Remap& request, void** result) {
  if (MemfdTable::instance().empty()) return false;
  const auto addr = reinterpret_cast<std::uint64_t>(request.addr);
  const std::uint64_t length = page_end(request.old_length);
  const std::uint64_t new_length = page_end(request.new_length);
  const int error = errno;
  if (addr + length < addr || !any_of_ours(addr, addr + std::max<std::uint64_t>(length, 1))) {
    errno = error;
    return false;
  }
  if (length == 0) {  // private memory cannot have a second mapping
    errno = EINVAL;
    *result = MAP_FAILED;
    return true;
  }
  const bool stays = (request.flags & MREMAP_FIXED) == 0 && new_length <= length;
  if ((request.flags & MREMAP_DONTUNMAP) != 0) {
    *result = move_aside(addr, length, request);
  } else if (stays || new_length == 0 || !well_formed(request, std::max(length, new_length))) {
    errno = error;
    return false;
  } else if (new_length <= length) {
    if (new_length < length) ::munmap(pointer(addr + new_length), length - new_length);
    *result = move_all(addr, new_length, new_length, request.new_addr);
  } else {
    *result = grow(addr, length, new_length, request);
  }
  if (*result != MAP_FAILED) errno = error;
  return true;
}

}  // namespace softhca::provider
