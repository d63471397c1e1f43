// SPDX-License-Identifier: Apache-2.0

// JSON-RPC 2.0 (https://www.jsonrpc.org/specification), from text to text: answers one line from a
// client of the admin socket. Any content of the line causes at worst an error reply.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

struct RpcLimits {
  std::size_t depth = 32;         ///< nesting of arrays and objects
  std::size_t batch = 64;         ///< requests in one array
  std::size_t reply = 4u << 20u;  ///< bytes of a reply
};

/// Returns the reply to one request or batch, without newline; empty for notifications.
/// `descriptors`: takes the descriptors to send with the reply; null: they are closed.
std::string answer(const AdminMethods& methods, std::string_view request,
                   const RpcLimits& limits = {}, const PeerIdentity& caller = {},
                   std::vector<UniqueFd>* descriptors = nullptr);

/// Returns an error reply with `id` null, for a request that could not be read.
std::string error_reply(RpcCode code, std::string message);

}  // namespace softhca::control
