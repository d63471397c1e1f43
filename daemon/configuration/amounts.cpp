// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/amounts.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace softhca::configuration {
namespace {

constexpr std::uint64_t kOwnMappings = 8192;
constexpr std::uint64_t kOwnDescriptors = 256;
// If the system has no limit: fs.nr_open of most systems.
constexpr std::uint64_t kMostDescriptors = 1 << 20;

/// Returns `total` less `own`. If the total is small, the daemon and its tenants get half each.
std::uint64_t less(std::uint64_t total, std::uint64_t own) {
  return total - std::min(own, total / 2);
}

}  // namespace

std::string to_text(Share share) {
  const std::uint32_t rest = share.tenths % 10;
  return std::to_string(share.tenths / 10) + (rest != 0 ? '.' + std::to_string(rest) : "") + '%';
}

std::optional<Share> parse_share(std::string_view text) {
  Share share;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, share.tenths);
  if (error != std::errc{} || share.tenths > 100) return std::nullopt;
  share.tenths *= 10;
  if (end - at == 3 && at[0] == '.' && at[1] >= '0' && at[1] <= '9') {
    share.tenths += static_cast<std::uint32_t>(at[1] - '0');
    at += 2;
  }
  if (end - at != 1 || *at != '%' || share.tenths > kWhole.tenths) return std::nullopt;
  return share;
}

std::uint64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long bytes = ::sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t kUnknown = std::uint64_t{1} << 30;
  return pages > 0 && bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes)
             : kUnknown;
}

std::uint64_t machine_mappings() {
  std::uint64_t most = 65530;  // the kernel's default
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  return less(most, kOwnMappings);
}

std::uint64_t machine_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return less(1024, kOwnDescriptors);
  return less(std::min<std::uint64_t>(limit.rlim_max, kMostDescriptors), kOwnDescriptors);
}

}  // namespace softhca::configuration
