// SPDX-License-Identifier: Apache-2.0

// Paths of the device tree that the relay sends to the agent.
#pragma once

#include <cstddef>
#include <string_view>

namespace softhca::guest {

/// True for a relative path without hidden entries and "..", of bounded length and depth.
bool is_tree_path(std::string_view path);
/// True if the link `path` with this target leads to a place in the tree.
bool is_inner_link(std::string_view path, std::string_view target);
/// True for one name of bounded length that is not hidden, such as that of a tenant.
bool is_plain_name(std::string_view name, std::size_t most);

/// True for the name of a socket to which programs may connect: of a tenant or a level, or the
/// control socket.
bool is_socket_name(std::string_view name);

}  // namespace softhca::guest
