// SPDX-License-Identifier: Apache-2.0

// Quantities as operators write them, in the configuration file and for softhcactl.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace softhca::abi {

/// Parses "300", "64K", "100M", "2G", "1T" (powers of 1024), and "10Gbit" (also kbit, Mbit, Tbit:
/// powers of 1000), which gives bytes, an eighth of the bits. Nothing: `text` is something else, or
/// exceeds 64 bits.
inline std::optional<std::uint64_t> parse_quantity(std::string_view text) {
  std::uint64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  if (text.empty()) return value;
  const bool bits = text.size() > 1 && text.substr(1) == "bit";
  const std::string_view prefixes = bits ? "kMGT" : "KMGT";
  const std::size_t power = prefixes.find(text.front());
  if (power == std::string_view::npos || (!bits && text.size() != 1)) return std::nullopt;
  std::uint64_t unit = bits ? 125 : 1024;  // bytes
  for (std::size_t i = 0; i < power; ++i) unit *= bits ? 1000 : 1024;
  if (value > ~std::uint64_t{0} / unit) return std::nullopt;
  return value * unit;
}

}  // namespace softhca::abi
