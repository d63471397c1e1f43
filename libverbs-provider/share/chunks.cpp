// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/chunks.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <bit>

namespace softhca::provider {
namespace {

struct Header {
  std::uint64_t before;
  std::uint64_t size;
};
constexpr std::uint64_t kHeader = sizeof(Header);
constexpr std::uint64_t kFlags = 7;
constexpr std::uint64_t kMapped = 2;

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

/// Returns the mapping of an allocation with this header.
PageRange pages_of(const Header& header, std::uint64_t addr) {
  if ((header.size & kFlags) != kMapped) return {};
  const std::uint64_t size = header.size & ~kFlags;
  const std::uint64_t at = addr - kHeader;
  if (header.before > at || size > ~at || size <= kHeader) return {};
  const PageRange range{at - header.before, at + size};
  const std::uint64_t page = page_bytes();
  return range.begin % page == 0 && range.end % page == 0 ? range : PageRange{};
}

/// These words belong to the program if they are not a header.
__attribute__((no_sanitize("address", "thread"))) PageRange pages_behind(std::uint64_t header) {
  return pages_of(*std::bit_cast<const Header*>(header), header + kHeader);
}

}  // namespace

PageRange pages_of_allocation(std::uint64_t addr) {
  if (addr % kHeader != 0 || addr < kHeader) return {};
  Header header{};
  const iovec here{&header, sizeof header};
  const iovec there{std::bit_cast<void*>(addr - kHeader), sizeof header};
  const ssize_t copied = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  return copied == sizeof header ? pages_of(header, addr) : PageRange{};
}

bool may_begin_allocation(std::uint64_t page) {
  // An aligned allocation begins behind the first page, and its header is at the end of that page.
  return pages_behind(page).begin == page || pages_behind(page + page_bytes() - kHeader).end != 0;
}

}  // namespace softhca::provider
