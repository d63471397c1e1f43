// SPDX-License-Identifier: Apache-2.0

// The method `qp.set`: sets the rates of a queue pair (admin_qp_rate.cpp), and its limit and
// importance on its shared receive queue (mechanisms D1, D6). They hold until the queue pair ends,
// or until a null restores the default.
#include <cerrno>

#include "daemon/device/session/device_session.hpp"
#include "daemon/operate/admin/admin_view.hpp"

namespace softhca::control {
namespace {

using engine::ReceiveQueues;
using receive::Member;

/// Reads a member of `params`: a whole number up to `most`, or null. Does nothing if the member is
/// absent. Returns false if it has another value.
template <class T>
bool read_term(const Json& params, const char* key, T most, T if_null, std::optional<T>& out) {
  if (!params.contains(key)) return true;
  const Json& value = params.at(key);
  if (value.is_null())
    out = if_null;
  else if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most)
    out = value.get<T>();
  return out.has_value();
}

std::string text_of(const std::string& key, const Json& value) {
  return " " + key + " " + (value.is_null() ? "as by default" : value.dump());
}

}  // namespace

RpcResult AdminView::set_queue_pair_of(const std::string& tenant, const Json& params) {
  constexpr std::uint8_t kMostImportant = kImportances - 1;
  const auto qpn = params.at("qpn").get<std::uint32_t>();
  ReceiveQueues::ReceiveTerms terms;
  if (!read_term(params, "srq_limit", kMostSrqBuffers, Member::kByPolicy, terms.limit))
    return invalid_params("srq_limit must be 0 (no limit) to " + std::to_string(kMostSrqBuffers) +
                          " buffers, or null for the tenant's policy");
  if (!read_term(params, "importance", kMostImportant, Member::kByPath, terms.importance))
    return invalid_params("importance must be 0 to 7, or null for that of its rule or path");
  const bool of_receives = terms.limit || terms.importance;
  if (!of_receives && !names_rate(params))
    return invalid_params("nothing to set: give a rate, srq_limit or importance");
  if (auto wrong = check_rate(params)) return *wrong;

  const DeviceSession* owner = nullptr;
  const engine::QueuePair* found = nullptr;
  for (const DeviceSession* session : sessions_())
    if (tenant.empty() || session->tenant().name == tenant)
      session->queue_pairs().for_each([&](const engine::QueuePair& qp) {
        if (qp.qpn.value == qpn) owner = session, found = &qp;
      });
  if (found == nullptr) return no_such("queue pair", std::to_string(qpn));
  if (auto wrong = check_minimum(*found, params)) return *wrong;
  if (of_receives)
    if (auto wrong = set_receive_terms(*owner, qpn, terms)) return *wrong;
  if (names_rate(params))
    if (auto wrong = set_rate(*owner, *found, params)) return *wrong;
  std::string text = "queue pair";
  for (const auto& [key, value] : params.items())
    if (key != "qpn") text += text_of(key, value);
  adapter_.journal.add(
      {.kind = "set", .tenant = owner->tenant().name, .text = text, .queue_pair = qpn});
  return Json{{"qpn", qpn}};
}

RpcResult AdminView::set_own_queue_pair(const std::string& tenant, const Json& params) {
  for (const auto& [key, value] : params.items())
    if (key != "qpn" && key != "srq_limit" && key != "importance")
      return RpcError{RpcCode::kNotAllowed,
                      "tenant " + tenant + " may set srq_limit and importance here, not " + key,
                      {}};
  return set_queue_pair_of(tenant, params);
}

/// Makes room for the record of a queue pair.
std::optional<RpcError> AdminView::reserve_record() const {
  if (adapter_.records == nullptr) return std::nullopt;
  const Outcome reserved = adapter_.records->reserve();
  if (reserved) return std::nullopt;
  return RpcError{RpcCode::kRefused, "it cannot be recorded: " + reserved.error().message, {}};
}

std::optional<RpcError> AdminView::set_receive_terms(const DeviceSession& owner, std::uint32_t qpn,
                                                     const ReceiveQueues::ReceiveTerms& terms) {
  const std::string name = "queue pair " + std::to_string(qpn);
  if (auto wrong = reserve_record()) return wrong;
  const int error = owner.queue_pairs().set_receive_terms(qpn, terms);
  if (error == ENOENT)
    return RpcError{RpcCode::kNoSuchThing, name + " does not use a shared receive queue", {}};
  if (error != 0)
    return RpcError{
        RpcCode::kRefused, name + ": its shared receive queue changes all the time; try again", {}};
  return std::nullopt;
}

}  // namespace softhca::control
