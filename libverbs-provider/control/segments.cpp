// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/control/segments.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "libverbs-provider/control/seal.hpp"

namespace softhca::provider {

/// Maps the memory of the reply. Returns 0 or an errno value.
int Segments::Mapping::map(int fd, const abi::MemoryPlaces* places) {
  if (places != nullptr)
    return is_mappable(places->memory, 1) ? memory.map(fd, places->memory) : EPROTO;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno;
  const int error = memory.map(fd, {0, static_cast<std::uint64_t>(status.st_size)});
  if (error == 0) seal_memory(fd);
  return error;
}

Segments::~Segments() {
  for (std::size_t i = 0; i < count_; ++i) mappings_[i].memory.unmap();
  std::free(mappings_);
}

Segments::Mapping* Segments::lookup(std::uint32_t segment) {
  for (std::size_t i = count_; i-- > 0;)
    if (mappings_[i].segment == segment) return &mappings_[i];
  return nullptr;
}

/// Adds an entry. Null: out of memory.
Segments::Mapping* Segments::add(std::uint32_t segment) {
  void* grown = std::realloc(mappings_, (count_ + 1) * sizeof(Mapping));
  if (grown == nullptr) return nullptr;
  mappings_ = static_cast<Mapping*>(grown);
  mappings_[count_] = {segment, {}};
  return &mappings_[count_++];
}

int Segments::announce(std::uint32_t segment, ReceivedFds& fds) {
  Guard guard(mutex_);
  Mapping* mapping = lookup(segment);
  if (mapping == nullptr) mapping = add(segment);
  if (mapping == nullptr) return ENOMEM;
  mapping->memory.unmap();
  if (const int error = fds.check(1)) return error;
  const int fd = fds.take(0);
  const int error = mapping->map(fd, fds.places());
  ::close(fd);
  return error;
}

std::byte* Segments::find(const abi::RingLocation& ring, std::uint64_t needed) {
  Guard guard(mutex_);
  Mapping* mapping = lookup(ring.segment);
  if (mapping == nullptr || mapping->memory.base == nullptr) return nullptr;
  const MappedMemory& memory = mapping->memory;
  if (ring.offset % 64 != 0 || ring.bytes < needed) return nullptr;
  if (ring.offset > memory.bytes || ring.bytes > memory.bytes - ring.offset) return nullptr;
  return memory.base + ring.offset;
}

void Segments::abandon() {
  for (std::size_t i = 0; i < count_; ++i) mappings_[i].memory.make_private();
}

}  // namespace softhca::provider
