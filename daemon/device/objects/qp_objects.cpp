// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/qp_objects.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "daemon/engine/requests/queue_pair_requests.hpp"

namespace softhca::control {
namespace {

using engine::QpState;
using engine::QpType;

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

bool has_own_receives(const abi::CreateQpRequest& request) {
  return request.srq == abi::kNoHandle && request.receive_cq != abi::kNoHandle;
}

void raise_to_least(abi::CreateQpRequest& request) {
  request.max_send_wr = std::max(request.max_send_wr, 1u);
  request.max_send_sge = std::max(request.max_send_sge, 1u);
  const bool own = has_own_receives(request);
  request.max_receive_wr = own ? std::max(request.max_receive_wr, 1u) : 0;
  request.max_receive_sge = own ? std::max(request.max_receive_sge, 1u) : 0;
}

}  // namespace

bool QpObjects::end(const Turn& turn) {
  return context_.remove_all(
      turn, [&] { return take_ending(); },
      [&](const Ending& ending) {
        return engine::ReleaseQp{.qp = ending.qp->engine,
                                 .session = context_.engine_session(),
                                 .user_handle = ending.user_handle,
                                 .is_last = ending.is_last,
                                 .with_session = true};
      },
      [](std::unique_ptr<Ending>) {});
}

/// Takes a queue pair that the session has to release. Null: none is left.
std::unique_ptr<QpObjects::Ending> QpObjects::take_ending() {
  auto ending = std::make_unique<Ending>();
  std::uint32_t domain = abi::kNoHandle;
  if (const auto made = qps_.begin(); made != qps_.end()) {
    ending->qp = std::move(made->second);
    ending->user_handle = ending->qp->request.user_handle;
    if (!ending->qp->engine.sends()) domain = ending->qp->request.xrc_domain;
    qps_.erase(made);
  } else if (const auto opened = opened_.remove_last()) {
    ending->qp = opened->qp;
    ending->charge = std::move(opened->charge);
    ending->user_handle = opened->user_handle;
    domain = opened->xrc_domain;
    opened_by_number_.erase(ending->qp->engine.qpn.value);
  } else {
    return nullptr;
  }
  ending->is_last = let_go(*ending->qp, domain);
  return ending;
}

/// Releases a queue pair. Returns true if no other process holds it; a target can then no longer be
/// opened. `domain`: of the target, else none.
bool QpObjects::let_go(QpObject& qp, std::uint32_t domain) {
  if (--qp.holders != 0) return false;
  if (const OpenXrcDomain* open = domains_.find(domain))
    open->domain->targets.erase(qp.engine.qpn.value);
  return true;
}

int QpObjects::check_create(const abi::CreateQpRequest& request) const {
  const configuration::DeviceConfig& device = context_.device();
  const auto is = [&](QpType type) { return request.type == static_cast<std::uint32_t>(type); };
  const bool initiator = is(QpType::kXrcSend);
  if (!is(QpType::kRc) && !is(QpType::kUc) && !is(QpType::kUd) && !initiator)
    return context_.refuse(EOPNOTSUPP, "qp_type %u is not supported", request.type);
  if (pds_.find(request.pd) == nullptr) return context_.refuse_unknown("protection domain");
  if (cqs_.find(request.send_cq) == nullptr) return context_.refuse_unknown("send_cq");
  if (initiator ? request.receive_cq != abi::kNoHandle : cqs_.find(request.receive_cq) == nullptr)
    return context_.refuse_unknown("recv_cq");
  if (request.srq != abi::kNoHandle && (initiator || srqs_.find(request.srq) == nullptr))
    return context_.refuse_unknown("srq");
  const struct {
    const char* name;
    std::uint32_t value, most;
  } limits[] = {{"max_send_wr", request.max_send_wr, device.kMaxQpWr},
                {"max_recv_wr", request.max_receive_wr, device.kMaxQpWr},
                {"max_send_sge", request.max_send_sge, device.kMaxSge},
                {"max_recv_sge", request.max_receive_sge, device.kMaxSge},
                {"max_inline_data", request.max_inline, device.kMaxInline}};
  for (const auto& [name, value, most] : limits)
    if (value > most) return context_.refuse(EINVAL, "%s %u, at most %u", name, value, most);
  return 0;
}

QpObjects::Sizes::Sizes(const abi::CreateQpRequest& request)
    : send_entries(std::bit_ceil(request.max_send_wr)),
      send_stride(abi::send_stride(request.max_send_sge, request.max_inline)),
      send_bytes(aligned(shm::SendRing::bytes_for(send_entries, send_stride))),
      own_receives(has_own_receives(request)),
      receive_entries(own_receives ? std::bit_ceil(request.max_receive_wr) : 0),
      receive_bytes(own_receives ? aligned(shm::ReceiveRing::bytes_for(receive_entries,
                                                                       request.max_receive_sge))
                                 : 0) {}

int QpObjects::create(const RequestBody& body, Reply& reply) {
  abi::CreateQpRequest request;
  if (!body.read(request)) return EINVAL;
  if (request.type == static_cast<std::uint32_t>(QpType::kXrcReceive))
    return create_xrc_target(request, reply);
  if (const int error = check_create(request)) return error;
  raise_to_least(request);
  const Sizes sizes(request);

  configuration::Charge charge = context_.take(configuration::Kind::kQueuePairs);
  if (!charge) return ENOMEM;
  Ring ring;
  std::uint32_t new_segment = 0;
  if (const int error =
          rings_.allocate(sizes.send_bytes + sizes.receive_bytes, reply, ring, new_segment))
    return error;
  auto qp = std::make_shared<QpObject>();
  qp->charge = std::move(charge);
  qp->ring = std::move(ring);
  qp->request = request;
  fill(*qp, sizes);

  if (!context_.on_engine(engine::InstallQp{qp->engine})) {
    rings_.release(qp->ring);
    return context_.refuse(ENOMEM, "all queue pairs of the adapter are in use");
  }
  use(request, 1);
  abi::CreateQpReply out = reply_of(*qp, sizes);
  out.new_segment = new_segment;
  reply.write(out);
  write(*qp);
  qps_.emplace(out.qpn, std::move(qp));
  return 0;
}

void QpObjects::fill(QpObject& qp, const Sizes& sizes) const {
  const abi::CreateQpRequest& request = qp.request;
  engine::QueuePair& e = qp.engine;
  e.type = static_cast<QpType>(request.type);
  e.session = &context_.engine_session();
  e.tenant = &context_.tenant();
  e.user_handle = request.user_handle;
  PdObject& pd = *pds_.find(request.pd);
  qp.pd = PdUse(pd, PdUser::kQueuePair);
  e.pd = pd.id;
  e.signal_all = request.signal_all != 0;
  e.sq.ring = shm::SendRing(qp.ring.base, sizes.send_entries, sizes.send_stride);
  if (sizes.own_receives) {
    e.rq.ring = shm::ReceiveRing(qp.ring.base + sizes.send_bytes, sizes.receive_entries,
                                 request.max_receive_sge);
  } else if (request.srq != abi::kNoHandle) {
    e.srq = &srqs_.find(request.srq)->engine;
  }
  e.sq.cq = &cqs_.find(request.send_cq)->engine;
  if (request.receive_cq != abi::kNoHandle) e.rq.cq = &cqs_.find(request.receive_cq)->engine;
  e.rq.device = context_.device_index();
  e.rc.mtu = e.type == QpType::kUd ? context_.largest_path_mtu() : context_.path_mtu();
}

abi::CreateQpReply QpObjects::reply_of(const QpObject& qp, const Sizes& sizes) const {
  const abi::CreateQpRequest& request = qp.request;
  abi::CreateQpReply out{};
  out.qpn = qp.engine.qpn.value;
  out.send_entries = sizes.send_entries;
  out.receive_entries = sizes.receive_entries;
  out.max_send_wr = request.max_send_wr;
  out.max_receive_wr = request.max_receive_wr;
  out.max_send_sge = request.max_send_sge;
  out.max_receive_sge = request.max_receive_sge;
  // A slot with room for buffer entries has it for inline data. Programs rely on that without
  // requesting it.
  const std::uint32_t room = request.max_send_sge * std::uint32_t{sizeof(abi::ScatterGather)};
  out.max_inline = std::max(request.max_inline, std::min(room, context_.device().kMaxInline));
  out.send_ring = out.receive_ring = qp.ring.location;
  out.send_ring.bytes = static_cast<std::uint32_t>(sizes.send_bytes);
  out.receive_ring.offset += sizes.send_bytes;
  out.receive_ring.bytes = static_cast<std::uint32_t>(sizes.receive_bytes);
  return out;
}

/// Adds `one` to the users of the queues that a queue pair uses; -1 when it ends.
void QpObjects::use(const abi::CreateQpRequest& request, std::uint32_t one) {
  cqs_.find(request.send_cq)->queue_pairs += one;
  CqObject* const receive_cq = cqs_.find(request.receive_cq);
  if (receive_cq != nullptr && request.receive_cq != request.send_cq)
    receive_cq->queue_pairs += one;
  if (SrqObject* srq = srqs_.find(request.srq)) srq->users += one;
}

QpObject* QpObjects::find(std::uint32_t qpn) const {
  if (const auto found = qps_.find(qpn); found != qps_.end()) return found->second.get();
  const auto opened = opened_by_number_.find(qpn);
  return opened == opened_by_number_.end() ? nullptr : opened->second.qp;
}

int QpObjects::query(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const QpObject* found = find(request.handle);
  if (found == nullptr) return context_.refuse_unknown("queue pair");
  const QpObject& qp = *found;
  abi::QueryQpReply out{qp.attributes};
  out.attributes.mask = 0;
  const auto [state, draining] = context_.on_engine(engine::QueryQp{qp.engine});
  out.attributes.qp_state = out.attributes.cur_qp_state = static_cast<std::uint32_t>(state);
  out.attributes.sq_draining = draining;
  reply.write(out);
  return 0;
}

int QpObjects::destroy(const RequestBody& body, Reply&) {
  abi::DestroyQpRequest request;
  if (!body.read(request)) return EINVAL;
  const auto found = qps_.find(request.qpn);
  if (found == qps_.end()) return context_.refuse_unknown("queue pair");
  engine::QueuePair& e = found->second->engine;
  if (!e.groups.empty())  // only requests of this thread change it
    return context_.refuse(EBUSY, "attached to %s",
                           counted(e.groups.size(), "multicast group").c_str());
  engine::SendWait& waited = found->second->waited;
  const auto waits = context_.on_engine(
      engine::AwaitSends{.qp = e, .send_sequence = request.send_sequence, .waited = waited});
  waited = waits.value_or(engine::SendWait{});
  if (waits) return kUnfinished;
  const auto qp = std::move(found->second);
  qps_.erase(found);
  if (!qp->engine.sends()) {
    if (qp->holders > 1) {  // from now on its record names no maker
      qp->maker = 0;
      write(*qp);
    }
    release(qp, qp->request.user_handle, qp->request.xrc_domain);
    return 0;
  }
  context_.on_engine(engine::RemoveQp{qp->engine});
  use(qp->request, std::uint32_t(-1));
  qp->record.erase();
  rings_.release(qp->ring);
  return 0;
}

}  // namespace softhca::control
