// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/schema/level_rules.hpp"

#include <algorithm>

namespace softhca::configuration {
namespace {

constexpr unsigned kEcnBits = 2;

template <class Reduce>
std::optional<std::uint8_t> common(std::span<const std::uint8_t> some,
                                   std::span<const std::uint8_t> others, Reduce&& reduce) {
  const auto found = std::ranges::find_if(some, [&](std::uint8_t one) {
    return std::ranges::any_of(others,
                               [&](std::uint8_t other) { return reduce(one) == reduce(other); });
  });
  return found != some.end() ? std::optional(*found) : std::nullopt;
}

}  // namespace

std::optional<std::uint8_t> common_service_level(std::span<const std::uint8_t> some,
                                                 std::span<const std::uint8_t> others) {
  return common(some, others, [](std::uint8_t number) { return unsigned{number}; });
}

std::optional<std::uint8_t> common_traffic_class(std::span<const std::uint8_t> some,
                                                 std::span<const std::uint8_t> others) {
  return common(some, others, [](std::uint8_t number) { return unsigned{number} >> kEcnBits; });
}

}  // namespace softhca::configuration
