// SPDX-License-Identifier: Apache-2.0

// modify_qp: checks the attributes as a whole; then the engine stores those that it uses, and
// changes the state.
#include <cerrno>
#include <optional>
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
}

}  // namespace

int QpObjects::modify(const RequestBody& body, Reply&) {
  abi::ModifyQpRequest request;
  if (!body.read(request)) return EINVAL;
  QpObject* found = find(request.qpn);
  if (found == nullptr) return EINVAL;
  QpObject& qp = *found;
  abi::QpAttributes& a = request.attributes;

  if ((a.mask & ~kKnownAttributes) != 0) return EINVAL;
  if ((a.mask & attr::kState) != 0 && a.qp_state > static_cast<std::uint32_t>(QpState::kError))
    return EINVAL;
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

  const auto changed = context_.on_engine(engine::ModifyQp{.qp = qp.engine,
                                                           .attributes = a,
                                                           .path = path,
                                                           .send_sequence = request.send_sequence,
                                                           .waited = qp.waited});
  using Result = engine::ModifyQp::Result;
  qp.waited = changed.waited;
  if (changed.result == Result::kWaits) return kUnfinished;
  if (changed.result == Result::kRefused) return EINVAL;
  store_attributes(a, qp.attributes);
  if (changed.entered == QpState::kReset) {
    qp.attributes = {};
    qp.reads = {};
  }
  if (reads) qp.reads = std::move(reads);
  return 0;
}

int QpObjects::check_values(const QpObject& qp, const abi::QpAttributes& a) const {
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
