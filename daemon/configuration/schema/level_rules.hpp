// SPDX-License-Identifier: Apache-2.0

// Service levels and traffic classes that assign queue pairs to levels. Each belongs to at most one
// level of a tenant.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace softhca::configuration {

inline constexpr std::uint8_t kMostServiceLevel = 15;  ///< IBA 7.6.5

/// Returns one of `some` that is also among `others`. Nothing: none is.
std::optional<std::uint8_t> common_service_level(std::span<const std::uint8_t> some,
                                                 std::span<const std::uint8_t> others);
/// Does the same for traffic classes. Those that differ only in the ECN bits are equal.
std::optional<std::uint8_t> common_traffic_class(std::span<const std::uint8_t> some,
                                                 std::span<const std::uint8_t> others);

}  // namespace softhca::configuration
