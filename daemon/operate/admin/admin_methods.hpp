// SPDX-License-Identifier: Apache-2.0

// The table of the admin socket's methods. Every part of the control thread may add methods.
//
//   methods.add("reload", [&reloader](const Json&, const PeerIdentity& caller) -> RpcResult {
//     const ReloadResult result = reloader.reload(actor_of(caller));
//     if (!result) return error_of(*result.refusal);
//     return changes_made(result);
//   });
//
// Handlers run on the control thread, between two events of its loop. Their params are an object,
// an array or null (none given). Those that take a second parameter get the caller. Handlers may
// throw only what reading a Json of the wrong shape throws: that becomes "invalid params".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {

using Json = nlohmann::json;

/// Codes of JSON-RPC 2.0, and our own; positive codes are free for applications.
enum class RpcCode : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
  kRefused = 1,      ///< not enough is free: data = {resource, asked, free}
  kNoSuchThing = 2,  ///< the tenant, level, TVL or queue pair does not exist
  kBadConfig = 3,    ///< the configuration file has mistakes: data = {problems: [text...]}
  kNotLive = 4,      ///< cannot change while the daemon runs: data = {reasons: [text...]}
  kNotAllowed = 6,   ///< a tenant may not change it
  kTooLarge = 5,     ///< the answer would be too long: ask for fewer entries
};

struct RpcError {
  RpcCode code = RpcCode::kInternalError;
  std::string message;  ///< for the operator: what happened, why, how to fix it
  Json data;            ///< null: none
};

/// The answer of a handler: a value, or an error.
class [[nodiscard]] RpcResult {
 public:
  RpcResult(Json value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
  RpcResult(RpcError error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  explicit operator bool() const { return state_.index() == 0; }
  Json& value() { return *std::get_if<0>(&state_); }
  const Json& value() const { return *std::get_if<0>(&state_); }
  const RpcError& error() const { return *std::get_if<1>(&state_); }

  /// Attaches descriptors. They go to the client with the answer, unless the answer is part of a
  /// batch.
  void attach(std::vector<UniqueFd> descriptors) { descriptors_ = std::move(descriptors); }
  std::vector<UniqueFd> take_descriptors() { return std::move(descriptors_); }

 private:
  std::variant<Json, RpcError> state_;
  std::vector<UniqueFd> descriptors_;
};

/// Returns the error for a request of more than is free (mechanism A6). `what`: the requester, as
/// "tenant ocean".
RpcError refusal(std::string_view what, std::string_view resource, std::uint64_t asked,
                 std::uint64_t free);
/// Returns the words for the caller of a change: "user 0, process 4711 requested it".
std::string requested_by(const PeerIdentity& caller);
RpcError no_such(std::string_view what, std::string_view name);
RpcError invalid_params(std::string message);

class AdminMethods {
 public:
  /// `caller`: the process that connected, as the kernel reports it; process 0: unknown.
  using Handler = std::function<RpcResult(const Json& params, const PeerIdentity& caller)>;

  /// Adds a method, or replaces the method of the same name. Set-up only. `handler` takes the
  /// parameters and the caller, or the parameters alone.
  template <class F>
  void add(const std::string& name, F handler) {
    if constexpr (std::is_invocable_v<F&, const Json&>)
      put(name, [handler = std::move(handler)](const Json& params, const PeerIdentity&) {
        return handler(params);
      });
    else
      put(name, std::move(handler));
  }
  /// Returns the handler of a method. Null: the method does not exist.
  const Handler* find(std::string_view name) const;

 private:
  void put(const std::string& name, Handler handler);

  std::map<std::string, Handler, std::less<>> handlers_;
};

}  // namespace softhca::control
