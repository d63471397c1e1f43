// Rules that several texts of the configuration follow.
#pragma once

#include <algorithm>
#include <string_view>

#include "daemon/resource/schema.hpp"

namespace softhca::resource {

constexpr std::size_t kLongestName = 32;

constexpr bool is_safe_name(std::string_view name) {
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), safe);
}

/// Names become parts of paths and of metric labels.
inline constexpr TextRule kSafeName{is_safe_name,
                                    "may hold 1 to 32 letters, digits, '_' and '-', no '-' first"};
inline constexpr const char* kNameMissing = "is missing; give it a name";

}  // namespace softhca::resource
