// SPDX-License-Identifier: Apache-2.0

// Rules for texts of the configuration.
#pragma once

#include <algorithm>
#include <string_view>

#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {

constexpr std::size_t kLongestName = 32;

constexpr bool is_safe_name(std::string_view name) {
  const auto safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), safe);
}

/// True if the character is a control character of ASCII, except DEL. (`char` is signed on some
/// machines only.)
constexpr bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

constexpr std::size_t kLongestCgroup = 512;

/// True if the path has the form of those in /proc/PID/cgroup: "/system.slice/fio.service".
constexpr bool is_cgroup_path(std::string_view path) {
  return path.starts_with('/') && (path.size() == 1 || !path.ends_with('/')) &&
         path.size() <= kLongestCgroup && path.find("//") == std::string_view::npos &&
         std::none_of(path.begin(), path.end(), is_control);
}
inline constexpr TextRule kCgroupPath{
    is_cgroup_path, "must be a path as in /proc/PID/cgroup, such as \"/system.slice/fio.service\""};

/// Names become parts of paths and of metric labels.
inline constexpr TextRule kSafeName{
    is_safe_name, "must be 1 to 32 letters, digits, '_' and '-', not beginning with '-'"};
inline constexpr const char* kNameMissing = "is missing; give it a name";

}  // namespace softhca::configuration
