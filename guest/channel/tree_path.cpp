// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/tree_path.hpp"

#include <algorithm>

#include "guest/channel/frame.hpp"

namespace softhca::guest {
namespace {

constexpr int kMaxDepth = 16;

/// Calls f(component) for each component of a path, as long as it returns true.
template <class F>
bool all_components(std::string_view path, F&& f) {
  for (;;) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (!f(path.substr(0, end))) return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

bool is_plain_name(std::string_view name, std::size_t most) {
  return !name.empty() && name.size() <= most && name.front() != '.' &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

bool is_socket_name(std::string_view name) {
  return is_plain_name(name, kMaxSocketName) &&
         (name == "socket" || name == kControlSocket || name.ends_with(".socket"));
}

bool is_tree_path(std::string_view path) {
  int depth = 0;
  return path.size() <= kMaxPath && all_components(path, [&](std::string_view name) {
           return ++depth <= kMaxDepth && is_plain_name(name, 255);
         });
}

bool is_inner_link(std::string_view path, std::string_view target) {
  if (target.empty() || target.front() == '/' || target.size() > kMaxPath ||
      target.find('\0') != target.npos)
    return false;
  auto depth = std::count(path.begin(), path.end(), '/');
  return all_components(target, [&](std::string_view name) {
    if (name == "..") return --depth >= 0;
    if (!name.empty() && name != ".") ++depth;
    return true;
  });
}

}  // namespace softhca::guest
