#include "libverbs-provider/segments.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace softhca::provider {
namespace {

/// Maps all of the memfd and closes the descriptor. 0 or an errno value.
int map_whole(int fd, std::byte*& base, std::size_t& bytes) {
  struct stat status {};
  void* memory = MAP_FAILED;
  if (::fstat(fd, &status) == 0)
    memory = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (memory == MAP_FAILED) return error;
  base = static_cast<std::byte*>(memory);
  bytes = static_cast<std::size_t>(status.st_size);
  return 0;
}

}  // namespace

Segments::~Segments() {
  for (std::size_t i = 0; i < count_; ++i) ::munmap(mappings_[i].base, mappings_[i].bytes);
  std::free(mappings_);
}

Segments::Mapping* Segments::lookup(std::uint32_t segment) {
  for (std::size_t i = count_; i-- > 0;)
    if (mappings_[i].segment == segment) return &mappings_[i];
  return nullptr;
}

int Segments::announce(std::uint32_t segment, ReceivedFds& fds) {
  if (fds.count() != 1) return EPROTO;
  Mapping fresh{segment, nullptr, 0};
  if (const int error = map_whole(fds.take(0), fresh.base, fresh.bytes)) return error;
  Guard guard(mutex_);
  if (Mapping* known = lookup(segment)) {
    ::munmap(known->base, known->bytes);
    *known = fresh;
    return 0;
  }
  void* grown = std::realloc(mappings_, (count_ + 1) * sizeof(Mapping));
  if (grown == nullptr) {
    ::munmap(fresh.base, fresh.bytes);
    return ENOMEM;
  }
  mappings_ = static_cast<Mapping*>(grown);
  mappings_[count_++] = fresh;
  return 0;
}

std::byte* Segments::find(const abi::RingLocation& ring, std::uint64_t needed) {
  Guard guard(mutex_);
  const Mapping* mapping = lookup(ring.segment);
  if (mapping == nullptr || ring.offset % 64 != 0 || ring.bytes < needed) return nullptr;
  if (ring.offset > mapping->bytes || ring.bytes > mapping->bytes - ring.offset) return nullptr;
  return mapping->base + ring.offset;
}

void Segments::abandon() {
  for (std::size_t i = 0; i < count_; ++i)
    ::mmap(mappings_[i].base, mappings_[i].bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

}  // namespace softhca::provider
