// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/ours.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace softhca::provider {

void OurMappings::find(std::uint64_t addr, std::uint64_t end) {
  MapsReader maps(addr);
  Mapping mapping;
  count = 0;
  while (count < kMost && maps.next(mapping)) {
    if (mapping.begin >= end) return;
    Mapping rest = clip(mapping, addr, end);
    Mapping part{};
    while (count < kMost && MemfdTable::instance().first_part(rest, part)) {
      mappings[count++] = part;
      rest = clip(rest, part.end, rest.end);
    }
  }
}

bool any_of_ours(std::uint64_t addr, std::uint64_t end) {
  OurMappings ours;
  ours.find(addr, end);
  return ours.count != 0;
}

int protection_of(const Mapping& mapping) {
  return (mapping.readable ? PROT_READ : 0) | (mapping.writable ? PROT_WRITE : 0) |
         (mapping.executable ? PROT_EXEC : 0);
}

std::uint64_t page_end(std::uint64_t addr) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (addr + page - 1) / page * page;
}

}  // namespace softhca::provider
