// SPDX-License-Identifier: Apache-2.0

// modify_qp: checks the attributes as a whole and stores them; then the engine changes the state.
#include <cerrno>
#include <utility>

#include "daemon/device/objects/qp_objects.hpp"

namespace softhca::control {
namespace {

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

std::uint32_t mtu_bytes(std::uint32_t code) { return 128u << code; }

/// Stores the attributes that query_qp returns and those that the engine uses.
void store_attributes(QpObject& qp, const abi::QpAttributes& a) {
  abi::QpAttributes& kept = qp.attributes;
  engine::QueuePair& e = qp.engine;
  const auto given = [&](std::uint32_t bit) { return (a.mask & bit) != 0; };
  if (given(attr::kAccessFlags)) kept.access_flags = e.access = a.access_flags & kQpAccess;
  if (given(attr::kPkeyIndex)) kept.pkey_index = a.pkey_index;
  if (given(attr::kPort)) kept.port_num = a.port_num;
  if (given(attr::kQkey)) kept.qkey = e.qkey = a.qkey;
  if (given(attr::kAv)) kept.av = a.av;
  if (given(attr::kSqdNotify)) kept.en_sqd_async_notify = a.en_sqd_async_notify;
  if (given(attr::kPathMtu)) {
    kept.path_mtu = a.path_mtu;
    e.rc.mtu = mtu_bytes(a.path_mtu);
  }
  if (given(attr::kDestQpn)) {
    kept.dest_qp_num = a.dest_qp_num;
    e.connection.destination = e.rc.destination = Qpn(a.dest_qp_num);
  }
  if (given(attr::kRqPsn)) kept.rq_psn = a.rq_psn & Psn::kMask;
  if (given(attr::kSqPsn)) kept.sq_psn = a.sq_psn & Psn::kMask;
  if (given(attr::kMaxRdAtomic)) kept.max_rd_atomic = e.rc.max_rd_atomic = a.max_rd_atomic;
  if (given(attr::kMaxDestRdAtomic))
    kept.max_dest_rd_atomic = e.rc.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (given(attr::kMinRnrTimer)) kept.min_rnr_timer = e.rc.min_rnr_timer = a.min_rnr_timer;
  if (given(attr::kTimeout)) kept.timeout = e.rc.timeout = a.timeout;
  if (given(attr::kRetryCount)) kept.retry_cnt = e.rc.retry_count = a.retry_cnt;
  if (given(attr::kRnrRetry)) kept.rnr_retry = e.rc.rnr_retry = a.rnr_retry;
}

/// True if commands that have not begun must not begin after the change.
bool ends_sending(QpState from, QpState to) { return from == QpState::kRts && to != QpState::kRts; }

void change_state(engine::Engine& engine, QpObject& qp, QpState from, QpState to,
                  const abi::ModifyQpRequest& request) {
  const abi::QpAttributes& a = request.attributes;
  engine::QueuePair& e = qp.engine;
  switch (to) {
    case QpState::kReset:
      engine.queue_pairs().reset(e, request.send_sequence);
      qp.attributes = {};
      qp.reads = {};
      break;
    case QpState::kInit:
      engine.queue_pairs().enter_init(e);
      break;
    case QpState::kRtr:
      if (from == QpState::kInit) engine.queue_pairs().enter_ready_to_receive(e, Psn(a.rq_psn));
      break;
    case QpState::kRts:
      engine.queue_pairs().enter_ready_to_send(e, Psn(a.sq_psn));
      break;
    case QpState::kSqd:
      if (from == QpState::kSqd) {
        engine.queue_pairs().apply_attributes(e);
      } else {
        engine.queue_pairs().enter_drain(e, a.en_sqd_async_notify != 0);
      }
      break;
    case QpState::kSqe:
      break;
    case QpState::kError:
      engine.queue_pairs().enter_error(e);
      break;
  }
}

}  // namespace

int QueuePairs::modify(const RequestBody& body, Reply&) {
  abi::ModifyQpRequest request;
  if (!body.read(request)) return EINVAL;
  QpObject* found = find(request.qpn);
  if (found == nullptr) return EINVAL;
  QpObject& qp = *found;
  const abi::QpAttributes& a = request.attributes;

  if ((a.mask & ~kKnownAttributes) != 0) return EINVAL;
  if ((a.mask & attr::kState) != 0 && a.qp_state > static_cast<std::uint32_t>(QpState::kError))
    return EINVAL;
  if (const int error = check_values(qp, a)) return error;
  std::optional<engine::AddressPath> path;
  if ((a.mask & attr::kAv) != 0)
    if (const int error = path_of(context_.tenant(), a.av, path.emplace())) return error;

  configuration::Charge reads;
  if ((a.mask & attr::kMaxDestRdAtomic) != 0 && engine::is_responder(qp.engine.type)) {
    const std::size_t bytes = transport::Responder::memory_for(a.max_dest_rd_atomic);
    reads = context_.take(configuration::Kind::kQueueBytes, bytes);
    if (!reads) return ENOMEM;
  }

  // Checks and changes the state in one task, as the engine itself moves queue pairs to the error
  // state.
  int error = 0;
  context_.on_engine([&](engine::Engine& engine) {
    const QpState from = qp.engine.state;
    const QpState to = (a.mask & attr::kState) != 0 ? static_cast<QpState>(a.qp_state) : from;
    const bool expected =
        (a.mask & attr::kCurState) == 0 || a.cur_qp_state == static_cast<std::uint32_t>(from);
    if (!expected || !engine::transition_allowed(qp.engine.type, from, to, a.mask)) {
      error = EINVAL;
      return;
    }
    if (ends_sending(from, to) && !has_sent(engine, qp, request.send_sequence)) {
      error = kUnfinished;
      return;
    }
    if (path) {
      qp.engine.connection.route.path = *path;
      engine::ReceiveQueues::path_changed(qp.engine);
    }
    store_attributes(qp, a);
    change_state(engine, qp, from, to, request);
  });
  if (error != kUnfinished) qp.turns_waited = 0;
  if (error == 0 && reads) qp.reads = std::move(reads);
  return error;
}

int QueuePairs::check_values(const QpObject& qp, const abi::QpAttributes& a) const {
  const configuration::DeviceConfig& device = context_.device();
  // The daemon does not support automatic path migration, so it rejects an alternate path that it
  // would never use.
  if ((a.mask & attr::kAltPath) != 0) return EOPNOTSUPP;
  if ((a.mask & attr::kPathMigState) != 0 && a.path_mig_state != kMigrated) return EOPNOTSUPP;
  if ((a.mask & attr::kPort) != 0 && a.port_num != 1) return EINVAL;
  if ((a.mask & attr::kPkeyIndex) != 0 && a.pkey_index != 0) return EINVAL;
  if ((a.mask & attr::kPathMtu) != 0 &&
      (a.path_mtu == 0 || a.path_mtu > kMaxMtuCode || mtu_bytes(a.path_mtu) > context_.path_mtu()))
    return EINVAL;
  if ((a.mask & attr::kDestQpn) != 0 && a.dest_qp_num >= kQpnLimit) return EINVAL;
  if ((a.mask & attr::kMaxRdAtomic) != 0 && a.max_rd_atomic > device.kMaxRdAtomic) return EINVAL;
  if ((a.mask & attr::kMaxDestRdAtomic) != 0 && a.max_dest_rd_atomic > device.kMaxRdAtomic)
    return EINVAL;
  if ((a.mask & attr::kTimeout) != 0 && a.timeout > 31) return EINVAL;
  if ((a.mask & attr::kMinRnrTimer) != 0 && a.min_rnr_timer > 31) return EINVAL;
  if ((a.mask & attr::kRetryCount) != 0 && a.retry_cnt > 7) return EINVAL;
  if ((a.mask & attr::kRnrRetry) != 0 && a.rnr_retry > 7) return EINVAL;
  if ((a.mask & attr::kQkey) != 0 && !context_.may_use_qkey(a.qkey)) return EPERM;
  // UD has neither remote reads nor atomics.
  if ((a.mask & attr::kAccessFlags) != 0 && qp.engine.type == QpType::kUd &&
      (a.access_flags & (memory::kRemoteRead | memory::kRemoteAtomic)) != 0)
    return EINVAL;
  return 0;
}

}  // namespace softhca::control
