// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/control/segments.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "libverbs-provider/control/seal.hpp"

namespace softhca::provider {

/// Maps the whole memfd. Returns 0 or an errno value.
int Segments::Mapping::map(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno;
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return errno;
  base = static_cast<std::byte*>(memory);
  bytes = static_cast<std::size_t>(status.st_size);
  seal_memory(fd);
  return 0;
}

void Segments::Mapping::drop() {
  if (base != nullptr) ::munmap(base, bytes);
  base = nullptr;
}

Segments::~Segments() {
  for (std::size_t i = 0; i < count_; ++i) mappings_[i].drop();
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
  mappings_[count_] = {segment, nullptr, 0};
  return &mappings_[count_++];
}

int Segments::announce(std::uint32_t segment, ReceivedFds& fds) {
  Guard guard(mutex_);
  Mapping* mapping = lookup(segment);
  if (mapping == nullptr) mapping = add(segment);
  if (mapping == nullptr) return ENOMEM;
  mapping->drop();
  if (const int error = fds.check(1)) return error;
  const int fd = fds.take(0);
  const int error = mapping->map(fd);
  ::close(fd);
  return error;
}

std::byte* Segments::find(const abi::RingLocation& ring, std::uint64_t needed) {
  Guard guard(mutex_);
  Mapping* mapping = lookup(ring.segment);
  if (mapping == nullptr || mapping->base == nullptr) return nullptr;
  if (ring.offset % 64 != 0 || ring.bytes < needed) return nullptr;
  if (ring.offset > mapping->bytes || ring.bytes > mapping->bytes - ring.offset) return nullptr;
  return mapping->base + ring.offset;
}

void Segments::abandon() {
  for (std::size_t i = 0; i < count_; ++i)
    if (mappings_[i].base != nullptr)
      ::mmap(mappings_[i].base, mappings_[i].bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

}  // namespace softhca::provider
