// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/requests/queue_pair_requests.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

// The time and the turns in which commands posted before a request have to be sent. The time
// suffices for a connection's window to open several times. The turns make the engine poll where it
// lacks the processor.
constexpr Duration kTimeToSend = std::chrono::milliseconds(10);
constexpr std::uint32_t kTurnsToSend = 64;

/// True if commands that have not begun must not begin after the change.
bool ends_sending(QpState from, QpState to) { return from == QpState::kRts && to != QpState::kRts; }

QpState state_after(const abi::QpAttributes& a, QpState from) {
  return (a.mask & attr::kState) != 0 ? static_cast<QpState>(a.qp_state) : from;
}

/// Stores the attributes that the engine uses.
void store_attributes(QueuePair& qp, const abi::QpAttributes& a) {
  const auto given = [&](std::uint32_t bit) { return (a.mask & bit) != 0; };
  if (given(attr::kAccessFlags)) qp.access = a.access_flags;
  if (given(attr::kQkey)) qp.qkey = a.qkey;
  if (given(attr::kPathMtu)) qp.rc.mtu = mtu_bytes(a.path_mtu);
  if (given(attr::kDestQpn)) qp.connection.destination = qp.rc.destination = Qpn(a.dest_qp_num);
  if (given(attr::kMaxRdAtomic)) qp.rc.max_rd_atomic = a.max_rd_atomic;
  if (given(attr::kMaxDestRdAtomic)) qp.rc.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (given(attr::kMinRnrTimer)) qp.rc.min_rnr_timer = a.min_rnr_timer;
  if (given(attr::kTimeout)) qp.rc.timeout = a.timeout;
  if (given(attr::kRetryCount)) qp.rc.retry_count = a.retry_cnt;
  if (given(attr::kRnrRetry)) qp.rc.rnr_retry = a.rnr_retry;
}

void store_path(QueuePair& qp, const std::optional<AddressPath>& path) {
  if (!path) return;
  qp.connection.route.path = *path;
  qp.connection.named_source = path->source;
  ReceiveQueues::path_changed(qp);
}

void change_state(QpLifecycle& queue_pairs, const ModifyQp& request, QpState from, QpState to) {
  const abi::QpAttributes& a = request.attributes;
  QueuePair& qp = request.qp;
  switch (to) {
    case QpState::kReset:
      queue_pairs.reset(qp, request.send_sequence);
      break;
    case QpState::kInit:
      queue_pairs.enter_init(qp);
      break;
    case QpState::kRtr:
      if (from == QpState::kInit) queue_pairs.enter_ready_to_receive(qp, Psn(a.rq_psn));
      break;
    case QpState::kRts:
      queue_pairs.enter_ready_to_send(qp, Psn(a.sq_psn));
      break;
    case QpState::kSqd:
      if (from == QpState::kSqd) {
        queue_pairs.apply_attributes(qp);
      } else {
        queue_pairs.enter_drain(qp, a.en_sqd_async_notify != 0);
      }
      break;
    case QpState::kSqe:
      break;
    case QpState::kError:
      queue_pairs.enter_error(qp);
      break;
  }
}

/// True if all ports of the tenant are UDP sockets. Such a socket is bound to an address, and
/// receives no packet to a group.
bool has_only_udp_sockets(const Engine& engine, const Tenant& tenant) {
  return !tenant.addresses.empty() &&
         std::ranges::all_of(tenant.addresses, [&](const Tenant::Address& address) {
           return address.port &&
                  engine.ports()[address.port->value]->port->kernel_headers() != nullptr;
         });
}

}  // namespace

bool InstallQp::run(Engine& engine) const { return engine.queue_pairs().install(qp, number); }

RestoreQp::Result RestoreQp::run(Engine& engine) const {
  QpLifecycle& queue_pairs = engine.queue_pairs();
  const bool is_left = queue_pairs.is_left(number);
  if (!queue_pairs.install(qp, number)) return Result::kNumberTaken;
  if (!is_left) return Result::kNotLeft;
  store_path(qp, path);
  store_attributes(qp, attributes);
  queue_pairs.resume(qp);
  return Result::kDone;
}

void RemoveQp::run(Engine& engine) const { engine.queue_pairs().remove(qp); }

void ShareQp::run(Engine& engine) const { engine.queue_pairs().share(qp, {&session, user_handle}); }

void ReleaseQp::run(Engine& engine) const {
  if (is_last)
    engine.queue_pairs().remove(qp, with_session);
  else
    engine.queue_pairs().unshare(qp, {&session, user_handle});
}

/// The control thread, which all tenants share, makes the request. Each turn is a request, and the
/// engine polls between two turns.
std::optional<SendWait> AwaitSends::run(Engine& engine) const {
  const Time now = engine.clock().now;
  SendWait wait = waited;
  if (wait.turns++ == 0) {
    engine.intake().announce(qp, send_sequence);
    wait.since = now;
  }
  const bool may_wait = wait.turns < kTurnsToSend || now - wait.since < kTimeToSend;
  if (may_wait && !engine.queue_pairs().has_sent(qp, send_sequence)) return wait;
  return std::nullopt;
}

bool ModifyQp::fits(QpState from) const {
  const bool expected = (attributes.mask & attr::kCurState) == 0 ||
                        attributes.cur_qp_state == static_cast<std::uint32_t>(from);
  return expected &&
         !check_transition(qp.type, from, state_after(attributes, from), attributes.mask);
}

ModifyQp::Answer ModifyQp::run(Engine& engine) const {
  const QpState from = qp.state;
  if (!fits(from)) return {.result = Result::kRefused, .state = from};
  const QpState to = state_after(attributes, from);
  if (ends_sending(from, to))
    if (const auto wait = AwaitSends{qp, send_sequence, waited}.run(engine))
      return {.result = Result::kWaits, .state = from, .waited = *wait};
  store_path(qp, path);
  store_attributes(qp, attributes);
  change_state(engine.queue_pairs(), *this, from, to);
  return {.state = to};
}

QueryQp::Answer QueryQp::run(Engine&) const {
  return {.state = qp.state, .draining = qp.state == QpState::kSqd && qp.sq.started != 0};
}

int AttachMulticast::run(Engine& engine) const {
  if (has_only_udp_sockets(engine, *qp.tenant)) return EOPNOTSUPP;
  return engine.multicast().attach(qp, group) ? 0 : ENOMEM;
}

int DetachMulticast::run(Engine& engine) const {
  return engine.multicast().detach(qp, group) ? 0 : EINVAL;
}

}  // namespace softhca::engine
