// SPDX-License-Identifier: Apache-2.0

// The common state of a session's parts: its process, its tenant, the limits of that tenant, and
// the way to the engine.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/handle_table.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/control_thread/helper_processes.hpp"
#include "daemon/control_thread/turn.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/adapter/refused_requests.hpp"
#include "daemon/device/objects/device_files.hpp"
#include "daemon/device/peer/peer.hpp"
#include "daemon/device/peer/reply.hpp"
#include "daemon/device/peer/request_body.hpp"
#include "daemon/engine/records/session.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/engine/requests/several.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/roce/wire/mad.hpp"
#include "daemon/tenant_memory/machine.hpp"

namespace softhca::control {

/// A request handler returns one of these in place of 0 or an errno value, to be called again: in
/// the tenant's next turn, or when some of the tenant's memory has been unmapped.
constexpr int kUnfinished = -1, kNoRoomYet = -2;

/// Returns a number of objects in words: "1 queue pair", "2 queue pairs".
inline std::string counted(std::uint64_t count, const char* one) {
  return std::to_string(count) + ' ' + one + (count == 1 ? "" : "s");
}

class SessionContext {
 public:
  SessionContext(Adapter& adapter, engine::Tenant& tenant, Peer& peer)
      : adapter_(adapter), tenant_(tenant), peer_(peer) {}

  engine::Tenant& tenant() const { return tenant_; }
  Peer& peer() const { return peer_; }
  const PeerIdentity& identity() const { return peer_.identity(); }
  /// As BlockingCalls::make(), for the tenant.
  void make_blocking_call(BlockingCalls::Call call, BlockingCalls::Call then) const {
    adapter_.blocking_calls.make(tenant_.name, std::move(call), std::move(then));
  }
  const std::shared_ptr<const HelperProcesses>& helpers() const { return adapter_.helpers; }
  /// Returns the function that unmaps memory shared by the tenant's processes and the daemon. A
  /// thread of the tenant unmaps it, which takes 0.1 s for each GiB. The function may be called
  /// when the session is over.
  Unmap unmap() const;
  /// Returns the source of the memory that the session shares with its process. It locks while all
  /// tenants together have at most Adapter::lockable locked, and the tenant at most its part of
  /// that.
  memory::MemorySource memory_source() const;
  /// The virtual machine in which the process runs; null: it runs on the host.
  std::shared_ptr<memory::Machine>& machine() const { return machine_; }
  /// True if the tenant may map more memory. It may not while too much of its memory waits to be
  /// unmapped, as no other limit counts that. Too much is as many bytes as the tenant may have, or
  /// an eighth of its mappings, at least 64.
  bool may_map() const;
  FileUser user() const { return {tenant_.id, identity().uid}; }
  const configuration::DeviceConfig& device() const { return adapter_.config.device; }
  /// True if programs of the tenant may use this Q_Key.
  bool may_use_qkey(std::uint32_t qkey) const {
    return !wire::is_controlled_qkey(qkey) || adapter_.settings(tenant_).programs.controlled_qkeys;
  }
  /// The tenant's device that the process has opened.
  void set_device_index(std::uint8_t index) { device_index_ = index; }
  std::uint8_t device_index() const { return device_index_; }
  /// Returns the path MTU of a port of the device; without a port, that of all.
  std::uint32_t path_mtu(std::optional<std::uint8_t> port = {}) const {
    return adapter_.path_mtu(tenant_, {device_index_, port});
  }
  /// Returns the largest path MTU of the device's ports. Longer datagrams are errors; those that
  /// are longer than their port carries are lost.
  std::uint32_t largest_path_mtu() const;
  /// Returns 0 if the device has a port of this number; else refuses the request, and returns
  /// EINVAL. `field`: the name of the number.
  int check_port(const char* field, std::uint32_t port) const;

  /// Records the engine's session.
  void set_engine_session(engine::Session& session) { session_ = &session; }
  /// Returns the engine's session. REQUIRES: set_engine_session() was called.
  engine::Session& engine_session() const { return *session_; }

  /// Charges the tenant for a new object. Empty: the tenant has too many; the refusal is counted,
  /// and recorded as by refuse().
  configuration::Charge take(configuration::Kind kind, std::uint64_t amount = 1,
                             std::uint64_t spare = 0) const;

  // --- what outlives the adapter

  /// Null: nothing does.
  Keeping* keeping() const { return adapter_.keeping; }
  /// The number by which records name the session.
  KeptId record_key() const { return peer_.kept(); }
  /// Makes room for the records of a request. Returns 0 or an errno value.
  int reserve_records() const {
    if (adapter_.records == nullptr) return 0;
    const Outcome reserved = adapter_.records->reserve();
    return reserved ? 0 : refuse(reserved.error());
  }
  /// Writes the record of an object. Empty: nothing outlives the adapter. REQUIRES:
  /// reserve_records() was called for the request.
  records::Record write(records::Kind kind, std::span<const std::byte> body) const {
    return adapter_.records != nullptr ? adapter_.records->write(kind, body) : records::Record();
  }
  template <class T>
  records::Record write_object(records::Kind kind, const T& body) const {
    return write(kind, std::as_bytes(std::span(&body, 1)));
  }
  /// True while the session is made again from records. What an earlier adapter granted is granted
  /// again then, whatever the limits are.
  void set_restoring(bool restoring) { restoring_ = restoring; }
  /// True if an earlier adapter may have done what the current request asks for. It crashed before
  /// it took the request from the socket.
  bool repeats() const { return repeats_; }
  void set_repeats(bool repeats) { repeats_ = repeats; }
  /// Returns a number of the current request. A process gives the next one another number. Not 0.
  std::uint32_t request() const { return request_; }
  void set_request(std::uint32_t tag) { request_ = tag | 1u << 31; }

  // --- why a request is refused

  /// Records why the current request is refused, for its program and the operator. The text names
  /// the attribute, its value and what is allowed. Returns `error`, an errno value.
  [[gnu::format(printf, 3, 4)]] int refuse(int error, const char* format, ...) const;
  /// As refuse(), with the message of an error if it has one. Returns its code.
  int refuse(const Error& error) const;
  /// As refuse(), for a handle that names no object. Returns EINVAL.
  int refuse_unknown(const char* what) const {
    return refuse(EINVAL, "no such %s: destroyed, or of another device context", what);
  }
  /// Drops what was recorded: by a part of a request that succeeded as a whole.
  void forget_refusal() const { refusal_.clear(); }
  /// Writes what was recorded, if anything, into the answer, and reports it to the operator.
  /// `verb`: by which programs know the request; null: it is not reported.
  void explain_refusal(Reply& reply, const char* verb);

  /// Carries a request to the engine as Worker::run_for(), at the tenant's cost, and returns its
  /// answer. REQUIRES: the engine has the session.
  template <class Request>
  auto on_engine(Request&& request) const {
    return adapter_.worker.run_for(*session_, request);
  }
  /// As Worker::await_event().
  void await_event(int completion_end) const { adapter_.worker.await_event(completion_end); }
  /// Removes objects as a session ends: makes the request request_for(object) for each, several at
  /// once, then calls end(object). `take` returns the next object, or an empty one at the end.
  /// Returns true if none is left, false if the turn is over. REQUIRES: the engine has the session,
  /// or no object exists.
  template <class Take, class RequestFor, class End>
  bool remove_all(const Turn& turn, Take&& take, RequestFor&& request_for, End&& end) const {
    using Request = decltype(request_for(*take()));
    std::vector<decltype(take())> some;
    std::vector<Request> requests;
    for (;;) {
      some.clear();
      while (some.size() < kAtOnce && (some.empty() || some.back())) some.push_back(take());
      if (!some.back()) some.pop_back();
      if (some.empty()) return true;
      requests.clear();
      for (const auto& object : some) requests.push_back(request_for(*object));
      for (std::span<Request> left(requests); !left.empty();)
        left = left.subspan(on_engine(engine::Several<Request>{left}));
      for (auto& object : some) end(std::move(object));
      if (turn.is_over()) return false;
    }
  }
  template <class T, class RequestFor>
  bool remove_all(const Turn& turn, HandleTable<T>& table, RequestFor&& request_for) const {
    return remove_all(
        turn, [&] { return table.remove_last(); }, request_for, [](std::unique_ptr<T>) {});
  }

 private:
  /// Objects that are removed before the turn may end.
  static constexpr std::size_t kAtOnce = 16;

  Adapter& adapter_;
  engine::Tenant& tenant_;
  mutable std::shared_ptr<memory::Machine> machine_;
  Peer& peer_;
  engine::Session* session_ = nullptr;
  std::uint8_t device_index_ = 0;
  bool restoring_ = false;
  bool repeats_ = false;
  std::uint32_t request_ = 0;
  mutable std::string refusal_;  ///< not a state of the session: the parts see it as constant
  RefusedRequests reported_refusals_{"device context"};
};

}  // namespace softhca::control
