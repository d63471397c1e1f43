// SPDX-License-Identifier: Apache-2.0

// The methods of the admin socket that show objects: status, tenants, tenant.show, explain, qps,
// qp.show, srqs, events, counters; and qp.set, which changes one. docs/admin-socket.md describes
// their parameters and answers.
//
// The engine's thread copies the state that only it may read into plain structures, a few objects
// at a time (requests/showing.hpp). The control thread converts these to text. The files:
// admin_view.cpp (status, counters, events), admin_tenants.cpp, admin_explain.cpp,
// admin_objects.cpp (queue pairs, shared receive queues), admin_qp_show.cpp, admin_qp_set.cpp,
// admin_qp_rate.cpp.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::engine {
struct QpRatesShot;
}

namespace softhca::control {

class DeviceSession;

class AdminView {
 public:
  using Sessions = std::function<std::vector<const DeviceSession*>()>;

  /// Returns a tenant's limits and use of rdma_cm.
  using ConnectionsOf = std::function<Json(const engine::Tenant&)>;

  /// `sessions`: returns the existing sessions. `connections`: empty: tenant.show omits rdma_cm.
  AdminView(Adapter& adapter, Sessions sessions, ConnectionsOf connections = {})
      : adapter_(adapter), sessions_(std::move(sessions)), connections_(std::move(connections)) {}

  /// Adds the methods. This object must outlive them.
  void add_to(AdminMethods& methods);
  /// Adds a part to `status`, which `part` returns.
  void show(const char* name, std::function<Json()> part) {
    parts_.emplace_back(name, std::move(part));
  }
  /// Adds `tenant.show`, `explain`, `qps`, `srqs`, `events` and `qp.set` for this tenant only
  /// (mechanism D: the owner of a shared receive queue sees and decides).
  void add_own(AdminMethods& methods, const engine::Tenant& tenant);
  /// Takes the engine's latest events and measures its lost time. Call it about once a second, as
  /// the engine keeps only a few events.
  void tick();

 private:
  // admin_view.cpp
  RpcResult status(const Json& params);
  RpcResult counters(const Json& params);
  RpcResult events(const Json& params);
  /// As events(), of the shared receive queues of `tenant`. The text of other events may name its
  /// peers' tenants.
  RpcResult own_events(const std::string& tenant, const Json& params);
  Json pools() const;
  Json ports() const;
  double uptime() const;
  /// Copies the engine's latest events into the journal.
  void take_engine_events();

  // admin_tenants.cpp
  RpcResult tenants(const Json& params);
  RpcResult tenant_show(const Json& params);
  static Json machine_of(const engine::Tenant& tenant);
  Json lanes_of(const engine::Tenant& tenant) const;
  Json sessions_of(const engine::Tenant& tenant) const;

  // admin_explain.cpp
  RpcResult explain(const Json& params);

  // admin_objects.cpp
  RpcResult queue_pairs(const Json& params);
  RpcResult shared_receive_queues(const Json& params);

  // admin_qp_show.cpp
  RpcResult show_queue_pair(const Json& params);

  // admin_qp_set.cpp
  RpcResult set_queue_pair(const Json& params) { return set_queue_pair_of({}, params); }
  /// `tenant` empty: any.
  RpcResult set_queue_pair_of(const std::string& tenant, const Json& params);
  /// As set_queue_pair_of(), without rates, which are the operator's.
  RpcResult set_own_queue_pair(const std::string& tenant, const Json& params);
  std::optional<RpcError> reserve_record() const;
  std::optional<RpcError> set_receive_terms(const DeviceSession& owner, std::uint32_t qpn,
                                            const engine::ReceiveQueues::ReceiveTerms& terms);

  // admin_qp_rate.cpp
  static bool names_rate(const Json& params);
  std::optional<RpcError> check_rate(const Json& params) const;
  std::optional<RpcError> check_minimum(const engine::QueuePair& qp, const Json& params) const;
  /// Sets the rates of a queue pair. REQUIRES: check_rate() and check_minimum() passed.
  std::optional<RpcError> set_rate(const DeviceSession& owner, const engine::QueuePair& qp,
                                   const Json& params);

  /// Returns a tenant. Null: unknown name.
  const engine::Tenant* find_tenant(const std::string& name) const;
  const engine::Tenant* find_tenant(TenantId id) const;
  std::string reason_of(const engine::DaemonEvent& event) const;
  std::string reason_text(const Refusal& refusal, const std::string& peer, Qpn peer_qpn) const;

  Adapter& adapter_;
  Sessions sessions_;
  ConnectionsOf connections_;
  std::vector<std::pair<const char*, std::function<Json()>>> parts_;  ///< of `status`
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::uint64_t engine_events_ = 0;  ///< events of the engine's log that were copied to the journal
  std::chrono::steady_clock::time_point ticked_ = started_;
  std::uint64_t lost_ = 0;  ///< Worker::lost() at the last tick
  double lost_share_ = 0;   ///< of the time between the last two ticks
};

/// Returns a string or number of `params`, or `otherwise` if it is absent. Throws what Json throws
/// on a value of another type.
template <class T>
T param(const Json& params, const char* key, T otherwise) {
  if (!params.is_object() || !params.contains(key)) return otherwise;
  return params.at(key).get<T>();
}

/// Returns the number of entries of a page: `limit` of `params`; at most and by default 1000.
std::size_t page_limit(const Json& params);

/// Adds `throttled`, the current state, and `throttled_s`, the time of past throttling in seconds.
void add_throttling(Json& out, const engine::RateGate& gate);
/// Adds `inbound` and `served`, each with these members and `rated_bytes`.
void add_throttling(Json& out, const engine::PeerGates& gates);
/// Returns the limits, the minimum and the throttling of the send rate, and limits and throttling
/// of `inbound` and `served`.
Json to_json(const engine::QpRatesShot& rates);

/// Returns {guaranteed, in_use, shared, high_water, draining, lent, may_share}.
Json to_json(const Quota& quota);

}  // namespace softhca::control
