// Creating, asking and destroying queue pairs. modify_qp has a file of its own.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "daemon/control/session/session.hpp"

namespace softhca::control {
namespace {

using engine::QpState;
using engine::QpType;

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

int Session::check_create(const abi::CreateQpRequest& request) const {
  const resource::DeviceConfig& device = adapter_.config.device;
  const auto is = [&](QpType type) { return request.type == static_cast<std::uint32_t>(type); };
  const bool initiator = is(QpType::kXrcSend);
  if (!is(QpType::kRc) && !is(QpType::kUc) && !is(QpType::kUd) && !initiator) return EOPNOTSUPP;
  if (file_->pds.find(request.pd) == nullptr || cqs_.find(request.send_cq) == nullptr)
    return EINVAL;
  if (initiator ? request.receive_cq != abi::kNoHandle || request.srq != abi::kNoHandle
                : cqs_.find(request.receive_cq) == nullptr)
    return EINVAL;
  if (request.srq != abi::kNoHandle && srqs_.find(request.srq) == nullptr) return EINVAL;
  if (request.max_send_wr > device.max_qp_wr || request.max_receive_wr > device.max_qp_wr ||
      request.max_send_sge > device.max_sge || request.max_receive_sge > device.max_sge ||
      request.max_inline > device.max_inline)
    return EINVAL;
  return 0;
}

int Session::create_qp(const RequestBody& body, Reply& reply) {
  abi::CreateQpRequest request;
  if (!body.read(request)) return EINVAL;
  if (request.type == static_cast<std::uint32_t>(QpType::kXrcReceive))
    return create_xrc_target(request, reply);
  if (const int error = check_create(request)) return error;
  request.max_send_wr = std::max(request.max_send_wr, 1u);
  request.max_send_sge = std::max(request.max_send_sge, 1u);
  const bool own_receives = request.srq == abi::kNoHandle && request.receive_cq != abi::kNoHandle;
  request.max_receive_wr = own_receives ? std::max(request.max_receive_wr, 1u) : 0;
  request.max_receive_sge = own_receives ? std::max(request.max_receive_sge, 1u) : 0;

  abi::CreateQpReply out{};
  out.send_entries = std::bit_ceil(request.max_send_wr);
  out.receive_entries = own_receives ? std::bit_ceil(request.max_receive_wr) : 0;
  const std::uint32_t stride = abi::send_stride(request.max_send_sge, request.max_inline);
  const std::size_t send_bytes = aligned(shm::SendRing::bytes_for(out.send_entries, stride));
  const std::size_t receive_bytes =
      own_receives
          ? aligned(shm::ReceiveRing::bytes_for(out.receive_entries, request.max_receive_sge))
          : 0;

  Charge charge = take(Kind::kQueuePairs);
  if (!charge) return ENOMEM;
  Ring ring;
  if (const int error = allocate_ring(send_bytes + receive_bytes, reply, ring, out.new_segment))
    return error;
  auto qp = std::make_shared<Qp>();
  qp->charge = std::move(charge);
  qp->ring = std::move(ring);
  std::byte* const base = qp->ring.base;
  qp->request = request;
  engine::QueuePair& e = qp->engine;
  e.type = static_cast<QpType>(request.type);
  e.session = engine_session_.get();
  e.tenant = &tenant_;
  e.user_handle = request.user_handle;
  Pd& pd = *file_->pds.find(request.pd);
  qp->pd = PdUse(pd);
  e.pd = pd.id;
  e.signal_all = request.signal_all != 0;
  e.send_ring = shm::SendRing(base, out.send_entries, stride);
  if (own_receives) {
    e.receive_ring =
        shm::ReceiveRing(base + send_bytes, out.receive_entries, request.max_receive_sge);
  } else if (request.srq != abi::kNoHandle) {
    e.srq = &srqs_.find(request.srq)->engine;
  }
  e.send_cq = &cqs_.find(request.send_cq)->engine;
  if (request.receive_cq != abi::kNoHandle) e.receive_cq = &cqs_.find(request.receive_cq)->engine;
  e.rc.mtu = adapter_.path_mtu(tenant_);

  bool installed = false;
  on_engine([&](engine::Engine& engine) { installed = engine.install(e); });
  if (!installed) {
    release_ring(qp->ring);
    return ENOMEM;
  }
  use(request, 1);

  out.qpn = e.qpn.value;
  out.max_send_wr = request.max_send_wr;
  out.max_receive_wr = request.max_receive_wr;
  out.max_send_sge = request.max_send_sge;
  out.max_receive_sge = request.max_receive_sge;
  // What has room for entries has it for inline data; programs rely on it without asking.
  const std::uint32_t room = request.max_send_sge * std::uint32_t{sizeof(abi::ScatterGather)};
  out.max_inline = std::max(request.max_inline, std::min(room, adapter_.config.device.max_inline));
  out.send_ring = out.receive_ring = qp->ring.location;
  out.send_ring.bytes = static_cast<std::uint32_t>(send_bytes);
  out.receive_ring.offset += send_bytes;
  out.receive_ring.bytes = static_cast<std::uint32_t>(receive_bytes);
  reply.write(out);
  qps_.emplace(out.qpn, std::move(qp));
  return 0;
}

/// Counts a queue pair in, or, with `one` = -1, out of the queues it uses.
void Session::use(const abi::CreateQpRequest& request, std::uint32_t one) {
  cqs_.find(request.send_cq)->users += one;
  if (Cq* cq = cqs_.find(request.receive_cq)) cq->users += one;
  if (Srq* srq = srqs_.find(request.srq)) srq->users += one;
}

Qp* Session::find_qp(std::uint32_t qpn) const {
  if (const auto found = qps_.find(qpn); found != qps_.end()) return found->second.get();
  Qp* qp = nullptr;
  opened_qps_.for_each([&](std::uint32_t, const OpenedQp& opened) {
    if (opened.qp->engine.qpn.value == qpn) qp = opened.qp.get();
  });
  return qp;
}

int Session::query_qp(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const Qp* found = find_qp(request.handle);
  if (found == nullptr) return EINVAL;
  const Qp& qp = *found;
  abi::QueryQpReply out{qp.attributes};
  on_engine([&](engine::Engine&) {
    const engine::QueuePair& e = qp.engine;
    out.attributes.qp_state = out.attributes.cur_qp_state = static_cast<std::uint32_t>(e.state);
    out.attributes.sq_draining = e.state == QpState::kSqd && e.started != 0;
  });
  reply.write(out);
  return 0;
}

int Session::destroy_qp(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto found = qps_.find(request.handle);
  if (found == qps_.end()) return EINVAL;
  if (!found->second->engine.groups.empty()) return EBUSY;  // changed by our own tasks alone
  const auto qp = std::move(found->second);
  qps_.erase(found);
  if (!qp->engine.sends()) {
    let_go(qp, qp->request.user_handle);
    --xrc_domains_.find(qp->request.xrc_domain)->users;
    return 0;
  }
  on_engine([&](engine::Engine& engine) { engine.remove(qp->engine); });
  use(qp->request, std::uint32_t(-1));
  release_ring(qp->ring);
  return 0;
}

}  // namespace softhca::control
