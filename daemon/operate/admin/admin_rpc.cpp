// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_rpc.hpp"

#include <algorithm>

namespace softhca::control {
namespace {

/// Returns the text of a value. Replaces invalid UTF-8, as the names of processes are arbitrary
/// bytes.
std::string text_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json envelope(const Json& id) { return Json{{"jsonrpc", "2.0"}, {"id", id}}; }

std::string failure(const Json& id, const RpcError& error) {
  Json reply = envelope(id);
  reply["error"] = {{"code", static_cast<int>(error.code)}, {"message", error.message}};
  if (!error.data.is_null()) reply["error"]["data"] = error.data;
  return text_of(reply);
}

/// True if arrays and objects are nested deeper than `most`. Checked before parsing, since copying
/// and printing a value recurses into each level of it.
bool too_deep(std::string_view text, std::size_t most) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

bool is_id(const Json& id) { return id.is_string() || id.is_number() || id.is_null(); }

/// Returns the fault in the form of a request. Null: none.
const char* fault_of(const Json& request) {
  if (!request.is_object()) return "a request must be an object";
  const auto version = request.find("jsonrpc");
  if (version == request.end() || *version != "2.0") return "jsonrpc must be \"2.0\"";
  const auto method = request.find("method");
  if (method == request.end() || !method->is_string()) return "method must be a string";
  if (const auto id = request.find("id"); id != request.end() && !is_id(*id))
    return "id must be a string, a number or null";
  if (const auto params = request.find("params");
      params != request.end() && !params->is_structured())
    return "params must be an object or an array";
  return nullptr;
}

RpcResult call(const AdminMethods& methods, const Json& request, const PeerIdentity& caller) {
  const auto& name = request["method"].get_ref<const std::string&>();
  const AdminMethods::Handler* handler = methods.find(name);
  if (handler == nullptr) return RpcError{RpcCode::kMethodNotFound, "no such method: " + name, {}};
  static const Json kNone;
  const auto params = request.find("params");
  try {
    return (*handler)(params == request.end() ? kNone : *params, caller);
  } catch (const Json::exception& wrong) {
    return invalid_params(wrong.what());
  }
}

/// Returns the reply to one request; empty for a notification.
std::string answer_one(const AdminMethods& methods, const Json& request, std::size_t room,
                       const PeerIdentity& caller, std::vector<UniqueFd>* descriptors) {
  if (const char* fault = fault_of(request)) {
    const bool has_id = request.is_object() && request.contains("id") && is_id(request["id"]);
    return failure(has_id ? request["id"] : Json(), {RpcCode::kInvalidRequest, fault, {}});
  }
  RpcResult result = call(methods, request, caller);
  const auto id = request.find("id");
  if (id == request.end()) return {};
  if (!result) return failure(*id, result.error());
  Json reply = envelope(*id);
  reply["result"] = result.value();
  std::string text = text_of(reply);
  if (text.size() <= room) {
    if (descriptors != nullptr) *descriptors = result.take_descriptors();
    return text;
  }
  return failure(*id, {RpcCode::kTooLarge, "the reply is too long; request less at once", {}});
}

std::string answer_batch(const AdminMethods& methods, const Json& batch, const RpcLimits& limits,
                         const PeerIdentity& caller) {
  if (batch.empty()) return error_reply(RpcCode::kInvalidRequest, "the batch is empty");
  if (batch.size() > limits.batch)
    return error_reply(RpcCode::kInvalidRequest,
                       "a batch holds at most " + std::to_string(limits.batch) + " requests");
  std::string replies;
  for (const Json& request : batch) {
    const std::size_t room = limits.reply - std::min(limits.reply, replies.size());
    const std::string reply = answer_one(methods, request, room, caller, nullptr);
    if (!reply.empty()) replies += (replies.empty() ? "[" : ",") + reply;
  }
  return replies.empty() ? replies : replies + "]";
}

}  // namespace

std::string error_reply(RpcCode code, std::string message) {
  return failure({}, {code, std::move(message), {}});
}

std::string answer(const AdminMethods& methods, std::string_view request, const RpcLimits& limits,
                   const PeerIdentity& caller, std::vector<UniqueFd>* descriptors) {
  if (too_deep(request, limits.depth))
    return error_reply(RpcCode::kParseError, "arrays and objects are nested too deeply");
  const Json parsed = Json::parse(request, nullptr, false);
  if (parsed.is_discarded()) return error_reply(RpcCode::kParseError, "the request is not JSON");
  if (parsed.is_array()) return answer_batch(methods, parsed, limits, caller);
  return answer_one(methods, parsed, limits.reply, caller, descriptors);
}

}  // namespace softhca::control
