// SPDX-License-Identifier: Apache-2.0

// A tenant's share of the pools, from which its amounts follow (tenant_amounts.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softhca::configuration {

/// A part of every pool, in tenths of a percent. 0: none.
struct Share {
  std::uint32_t tenths = 0;

  bool operator==(const Share&) const = default;
};
inline constexpr Share kWhole{1000};

/// Returns the part of a total, rounded down.
constexpr std::uint64_t part_of(Share share, std::uint64_t total) {
  return total / kWhole.tenths * share.tenths +
         total % kWhole.tenths * share.tenths / kWhole.tenths;
}
/// Returns "50%" or "12.5%".
std::string to_text(Share share);
/// Parses such a text. Nothing: it is not one, or more than "100%".
std::optional<Share> parse_share(std::string_view text);
inline constexpr const char* kShareForm = "must be from \"0%\" to \"100%\", such as \"12.5%\"";

}  // namespace softhca::configuration
