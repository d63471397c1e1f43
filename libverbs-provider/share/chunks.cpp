#include "libverbs-provider/share/chunks.hpp"

#include <unistd.h>

#include <bit>

namespace softhca::provider {
namespace {

constexpr std::uint64_t kHeader = 16;
constexpr std::uint64_t kFlags = 7;
constexpr std::uint64_t kMapped = 2;

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

// What it reads is the C library's, or nobody's: AddressSanitizer is not to object.
__attribute__((no_sanitize("address"))) PageRange pages_of_allocation(std::uint64_t addr) {
  struct Header {
    std::uint64_t before;
    std::uint64_t size;
  };
  static_assert(sizeof(Header) == kHeader);
  if (addr % kHeader != 0 || addr < kHeader) return {};
  const Header header = *std::bit_cast<const Header*>(addr - kHeader);
  if ((header.size & kFlags) != kMapped) return {};
  const std::uint64_t size = header.size & ~kFlags;
  const std::uint64_t at = addr - kHeader;
  if (header.before > at || size > ~at || size <= kHeader) return {};
  const PageRange range{at - header.before, at + size};
  const std::uint64_t page = page_bytes();
  return range.begin % page == 0 && range.end % page == 0 ? range : PageRange{};
}

bool may_begin_allocation(std::uint64_t page) {
  // An aligned allocation begins behind the first page, its words end with that.
  return pages_of_allocation(page + kHeader).begin == page ||
         pages_of_allocation(page + page_bytes()).end != 0;
}

}  // namespace softhca::provider
