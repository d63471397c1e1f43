// JSON-RPC 2.0 (https://www.jsonrpc.org/specification) as text in, text out: answers one line from
// a client of the admin socket. Whatever the line holds, the worst that follows is an error reply.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/control/admin/admin_methods.hpp"

namespace softhca::control {

struct RpcLimits {
  std::size_t depth = 32;         ///< of arrays and objects within each other
  std::size_t batch = 64;         ///< requests in one array
  std::size_t reply = 4u << 20u;  ///< bytes of one line of reply
};

/// The reply to one request or batch, without newline; empty when none is due (notifications).
/// `descriptors`: gets what is to be sent with it; null: that is closed.
std::string answer(const AdminMethods& methods, std::string_view request,
                   const RpcLimits& limits = {}, const PeerIdentity& caller = {},
                   std::vector<UniqueFd>* descriptors = nullptr);

/// A reply that stands for itself: `id` null, because the request could not be read.
std::string error_reply(RpcCode code, std::string message);

}  // namespace softhca::control
