// Service levels and traffic classes by which queue pairs come to levels: each is of one level of a
// tenant at most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace softhca::resource {

inline constexpr std::uint8_t kMostServiceLevel = 15;  ///< IBA 7.6.5

/// One of `some` that is among `others`, too; nothing: none is.
std::optional<std::uint8_t> common_service_level(std::span<const std::uint8_t> some,
                                                 std::span<const std::uint8_t> others);
/// Likewise; traffic classes that differ in the bits of ECN are the same.
std::optional<std::uint8_t> common_traffic_class(std::span<const std::uint8_t> some,
                                                 std::span<const std::uint8_t> others);

}  // namespace softhca::resource
