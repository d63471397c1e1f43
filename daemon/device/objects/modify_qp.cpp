// SPDX-License-Identifier: Apache-2.0

// modify_qp: checks the attributes as a whole; then the engine stores those that it uses, and
// changes the state.
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "daemon/device/objects/qp_objects.hpp"
#include "daemon/engine/records/qp_attributes.hpp"
#include "daemon/engine/requests/queue_pair_requests.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"

namespace softhca::control {
namespace {

using engine::mtu_bytes;
using engine::QpState;
using engine::QpType;
namespace attr = engine::attr;

constexpr std::uint32_t kKnownAttributes = (attr::kDestQpn << 1) - 1;
constexpr std::uint32_t kMaxMtuCode = 5;
constexpr std::uint32_t kQpnLimit = 1u << 24;
/// IBV_MIG_MIGRATED: the state of a queue pair with one path.
constexpr std::uint32_t kMigrated = 0;
constexpr std::uint32_t kQpAccess = memory::kLocalWrite | memory::kRemoteWrite |
                                    memory::kRemoteRead | memory::kRemoteAtomic |
                                    memory::kFlushGlobal;

/// Stores the attributes that query_qp returns.
void store_attributes(const abi::QpAttributes& a, abi::QpAttributes& kept) {
  const auto given = [&](std::uint32_t bit) { return (a.mask & bit) != 0; };
  if (given(attr::kAccessFlags)) kept.access_flags = a.access_flags;
  if (given(attr::kPkeyIndex)) kept.pkey_index = a.pkey_index;
  if (given(attr::kPort)) kept.port_num = a.port_num;
  if (given(attr::kQkey)) kept.qkey = a.qkey;
  if (given(attr::kAv)) kept.av = a.av;
  if (given(attr::kSqdNotify)) kept.en_sqd_async_notify = a.en_sqd_async_notify;
  if (given(attr::kPathMtu)) kept.path_mtu = a.path_mtu;
  if (given(attr::kDestQpn)) kept.dest_qp_num = a.dest_qp_num;
  if (given(attr::kRqPsn)) kept.rq_psn = a.rq_psn & Psn::kMask;
  if (given(attr::kSqPsn)) kept.sq_psn = a.sq_psn & Psn::kMask;
  if (given(attr::kMaxRdAtomic)) kept.max_rd_atomic = a.max_rd_atomic;
  if (given(attr::kMaxDestRdAtomic)) kept.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (given(attr::kMinRnrTimer)) kept.min_rnr_timer = a.min_rnr_timer;
  if (given(attr::kTimeout)) kept.timeout = a.timeout;
  if (given(attr::kRetryCount)) kept.retry_cnt = a.retry_cnt;
  if (given(attr::kRnrRetry)) kept.rnr_retry = a.rnr_retry;
  kept.mask |= a.mask & ~(attr::kState | attr::kCurState);
}

}  // namespace

int QpObjects::modify(const RequestBody& body, Reply&) {
  abi::ModifyQpRequest request;
  if (!body.read(request)) return EINVAL;
  QpObject* found = find(request.qpn);
  if (found == nullptr) return context_.refuse_unknown("queue pair");
  QpObject& qp = *found;
  abi::QpAttributes& a = request.attributes;

  if ((a.mask & ~kKnownAttributes) != 0)
    return context_.refuse(EINVAL, "attr_mask has unknown bits 0x%x", a.mask & ~kKnownAttributes);
  constexpr auto kMostState = static_cast<std::uint32_t>(QpState::kError);
  if ((a.mask & attr::kState) != 0 && a.qp_state > kMostState)
    return context_.refuse(EINVAL, "qp_state %u, at most %u", a.qp_state, kMostState);
  if (const int error = check_values(qp, a)) return error;
  a.access_flags &= kQpAccess;
  std::optional<engine::AddressPath> path;
  if ((a.mask & attr::kAv) != 0)
    if (const int error = path_of(context_, a.av, path.emplace())) return error;

  configuration::Charge reads;
  if ((a.mask & attr::kMaxDestRdAtomic) != 0 && engine::is_responder(qp.engine.type)) {
    const std::size_t bytes = transport::Responder::memory_for(a.max_dest_rd_atomic);
    reads = context_.take(configuration::Kind::kQueueBytes, bytes);
    if (!reads) return ENOMEM;
  }

  const int error = change(qp, {.qp = qp.engine,
                                .attributes = a,
                                .path = path,
                                .send_sequence = request.send_sequence,
                                .waited = qp.waited});
  if (error == 0 && reads) qp.reads = std::move(reads);
  return error;
}

/// Changes a queue pair. The engine's state outlives a crash at once. A queue pair in that state
/// needs the attributes, so their record comes first. One in RESET needs none.
int QpObjects::change(QpObject& qp, const engine::ModifyQp& wanted) {
  const abi::QpAttributes& a = wanted.attributes;
  const auto becomes = [&](QpState state) {
    return (a.mask & attr::kState) != 0 && a.qp_state == static_cast<std::uint32_t>(state);
  };
  const auto refuse = [&](QpState from) {
    if (becomes(from) && context_.repeats()) return 0;  // the earlier adapter has done it
    return refuse_transition(qp, a, from);
  };
  const QpState from = context_.on_engine(engine::QueryQp{qp.engine}).state;
  if (!wanted.fits(from)) return refuse(from);
  const bool resets = becomes(QpState::kReset);
  const abi::QpAttributes before = qp.attributes;
  const auto path_before = qp.path;
  if (!resets) {
    store_attributes(a, qp.attributes);
    if (wanted.path) qp.path = wanted.path;
    if (wanted.path || std::memcmp(&before, &qp.attributes, sizeof before) != 0) write(qp);
  }
  const auto changed = context_.on_engine(wanted);
  using Result = engine::ModifyQp::Result;
  qp.waited = changed.waited;
  // It goes on in a later turn. The record has its attributes already.
  if (changed.result == Result::kWaits) return kUnfinished;
  if (changed.result == Result::kRefused) {  // the engine has moved it to ERR meanwhile
    qp.attributes = before;
    qp.path = path_before;
    write(qp);
    return refuse(changed.state);
  }
  if (resets) {
    qp.attributes = {};
    qp.path.reset();
    qp.reads = {};
    write(qp);
  }
  return 0;
}

/// Refuses attributes that do not fit the state of the queue pair. Returns EINVAL.
int QpObjects::refuse_transition(const QpObject& qp, const abi::QpAttributes& a,
                                 QpState from) const {
  if ((a.mask & attr::kCurState) != 0 && a.cur_qp_state != static_cast<std::uint32_t>(from))
    return context_.refuse(EINVAL, "cur_qp_state %u, but the queue pair is in %s (%u)",
                           a.cur_qp_state, name_of(from), static_cast<unsigned>(from));
  const QpState to = (a.mask & attr::kState) != 0 ? static_cast<QpState>(a.qp_state) : from;
  const auto fault = engine::check_transition(qp.engine.type, from, to, a.mask);
  const auto refuse = [&](const std::string& what) {
    return context_.refuse(EINVAL, "%s->%s: %s", name_of(from), name_of(to), what.c_str());
  };
  const char* const type = name_of(qp.engine.type);
  if (fault.is_unknown) return refuse(std::string("no such transition of type ") + type);
  if (fault.missing != 0) return refuse(engine::names_of(fault.missing) + " missing");
  return refuse(engine::names_of(fault.excess) + " not allowed in this transition of type " + type);
}

int QpObjects::check_values(const QpObject& qp, const abi::QpAttributes& a) const {
  const configuration::DeviceConfig& device = context_.device();
  const auto given = [&](std::uint32_t bit) { return (a.mask & bit) != 0; };
  // The daemon does not support automatic path migration, so it rejects an alternate path that it
  // would never use.
  if (given(attr::kAltPath)) return context_.refuse(EOPNOTSUPP, "alt_ah_attr is not supported");
  if (given(attr::kPathMigState) && a.path_mig_state != kMigrated)
    return context_.refuse(EOPNOTSUPP, "path_mig_state %u, must be IBV_MIG_MIGRATED (%u)",
                           a.path_mig_state, kMigrated);
  if (given(attr::kPort))
    if (const int error = context_.check_port("port_num", a.port_num)) return error;
  if (given(attr::kPathMtu) && (a.path_mtu == 0 || a.path_mtu > kMaxMtuCode))
    return context_.refuse(EINVAL, "path_mtu %u, must be 1 to %u (an enum ibv_mtu)", a.path_mtu,
                           kMaxMtuCode);
  const std::uint32_t most_bytes =
      context_.path_mtu(given(attr::kAv) ? std::optional(a.av.port_num) : std::nullopt);
  if (given(attr::kPathMtu) && mtu_bytes(a.path_mtu) > most_bytes)
    return context_.refuse(EINVAL, "path_mtu %u (%u bytes), at most the active_mtu of %u bytes",
                           a.path_mtu, mtu_bytes(a.path_mtu), most_bytes);
  const struct {
    std::uint32_t bit;
    std::uint32_t value, most;
  } limits[] = {
      {attr::kPkeyIndex, a.pkey_index, 0},
      {attr::kDestQpn, a.dest_qp_num, kQpnLimit - 1},
      {attr::kMaxRdAtomic, a.max_rd_atomic, device.kMaxRdAtomic},
      {attr::kMaxDestRdAtomic, a.max_dest_rd_atomic, device.kMaxRdAtomic},
      {attr::kTimeout, a.timeout, 31},
      {attr::kMinRnrTimer, a.min_rnr_timer, 31},
      {attr::kRetryCount, a.retry_cnt, 7},
      {attr::kRnrRetry, a.rnr_retry, 7},
  };
  for (const auto& [bit, value, most] : limits)
    if (given(bit) && value > most)
      return context_.refuse(EINVAL, "%s %u, at most %u", engine::names_of(bit).c_str(), value,
                             most);
  if (given(attr::kQkey) && !context_.may_use_qkey(a.qkey))
    return context_.refuse(EPERM, "qkey 0x%x needs tenant.controlled_qkeys = true", a.qkey);
  // UD has neither remote reads nor atomics.
  if (given(attr::kAccessFlags) && qp.engine.type == QpType::kUd &&
      (a.access_flags & (memory::kRemoteRead | memory::kRemoteAtomic)) != 0)
    return context_.refuse(EINVAL, "qp_access_flags 0x%x: UD has no remote reads and atomics",
                           a.access_flags);
  return 0;
}

}  // namespace softhca::control
