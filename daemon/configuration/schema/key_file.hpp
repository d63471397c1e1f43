// SPDX-License-Identifier: Apache-2.0

// Files with the keys with which hosts authenticate packets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/roce/wire/peer_config.hpp"

namespace softhca::configuration {

/// Parses keys, one a line, as 64 hexadecimal digits: `openssl rand -hex 32`. Empty lines and lines
/// that begin with '#' do not count. Errors name the line, but not its content.
Expected<std::vector<PeerSecret>> parse_keys(std::string_view text);

/// Does the same for a file. Errors also: the file belongs to neither root nor the daemon's user,
/// or other users may read or write it.
Expected<std::vector<PeerSecret>> read_key_file(const std::string& path);

}  // namespace softhca::configuration
