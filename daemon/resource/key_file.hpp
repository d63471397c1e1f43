// Files with the keys that hosts authenticate packets with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/peer_config.hpp"

namespace softhca::resource {

/// A key a line, as 64 hexadecimal digits: `openssl rand -hex 32`. Empty lines and those that begin
/// with '#' do not count. Errors name the line, and say nothing of what is in it.
Expected<std::vector<PeerSecret>> parse_keys(std::string_view text);

/// As parse_keys(), of a file. Error also: it is not root's or the daemon's, or somebody else may
/// read or write it.
Expected<std::vector<PeerSecret>> read_key_file(const std::string& path);

}  // namespace softhca::resource
