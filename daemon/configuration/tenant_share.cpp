// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/tenant_share.hpp"

#include <charconv>

namespace softhca::configuration {

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

}  // namespace softhca::configuration
