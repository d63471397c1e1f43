// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

RpcError refusal(std::string_view what, std::string_view resource, std::uint64_t asked,
                 std::uint64_t free) {
  return {RpcCode::kRefused,
          std::string(what) + ": " + std::to_string(asked) + " " + std::string(resource) +
              " asked for, " + std::to_string(free) + " free; nothing was changed",
          Json{{"resource", resource}, {"asked", asked}, {"free", free}}};
}

std::string requested_by(const PeerIdentity& caller) {
  return "user " + std::to_string(caller.uid) + ", process " + std::to_string(caller.pid) +
         " requested it";
}

RpcError no_such(std::string_view what, std::string_view name) {
  return {RpcCode::kNoSuchThing, "no such " + std::string(what) + ": " + std::string(name), {}};
}

RpcError invalid_params(std::string message) {
  return {RpcCode::kInvalidParams, std::move(message), {}};
}

void AdminMethods::put(const std::string& name, Handler handler) {
  handlers_.insert_or_assign(name, std::move(handler));
}

const AdminMethods::Handler* AdminMethods::find(std::string_view name) const {
  const auto found = handlers_.find(name);
  return found == handlers_.end() ? nullptr : &found->second;
}

}  // namespace softhca::control
