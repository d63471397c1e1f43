// SPDX-License-Identifier: Apache-2.0

// Targets of extended reliable connected service (XRC), which processes may share.
#include <cerrno>
#include <utility>

#include "daemon/device/objects/qp_objects.hpp"
#include "daemon/engine/requests/queue_pair_requests.hpp"

namespace softhca::control {
namespace {

// Holds on one target, by all processes. The engine notifies each holder of its events.
constexpr std::uint32_t kMostHolders = 1024;

}  // namespace

/// Makes a target. It has no rings, as no program posts to it.
int QpObjects::create_xrc_target(const abi::CreateQpRequest& request, Reply& reply) {
  OpenXrcDomain* open = domains_.find(request.xrc_domain);
  if (open == nullptr) return context_.refuse_unknown("XRC domain");
  auto qp = make_target(request, *open);
  if (!qp->charge) return ENOMEM;
  const engine::QueuePair& e = qp->engine;
  if (!context_.on_engine(engine::InstallQp{qp->engine}))
    return context_.refuse(ENOMEM, "all queue pairs of the adapter are in use");
  ++open->users;
  abi::CreateQpReply out{};
  out.qpn = e.qpn.value;
  open->domain->targets[out.qpn] = qp;
  write(*qp);
  qps_.emplace(out.qpn, std::move(qp));
  reply.write(out);
  return 0;
}

/// Makes a target that the engine does not have yet. Its charge is empty if the tenant has too many
/// queue pairs.
std::shared_ptr<QpObject> QpObjects::make_target(const abi::CreateQpRequest& request,
                                                 const OpenXrcDomain& open) const {
  auto qp = std::make_shared<QpObject>();
  qp->charge = context_.take(configuration::Kind::kQueuePairs);
  qp->request = request;
  engine::QueuePair& e = qp->engine;
  e.type = engine::QpType::kXrcReceive;
  e.session = &context_.engine_session();
  e.tenant = &context_.tenant();
  e.user_handle = request.user_handle;
  e.xrc_domain = open.domain->id;
  e.rq.device = context_.device_index();
  e.rc.mtu = context_.path_mtu();
  return qp;
}

int QpObjects::open(const RequestBody& body, Reply& reply) {
  abi::OpenQpRequest request;
  if (!body.read(request)) return EINVAL;
  OpenXrcDomain* open = domains_.find(request.xrc_domain);
  if (open == nullptr) return context_.refuse_unknown("XRC domain");
  const auto found = open->domain->targets.find(request.qpn);
  if (found == open->domain->targets.end())
    return context_.refuse(EINVAL, "qp_num %u: the XRC domain has no such target", request.qpn);
  auto opened = std::make_unique<OpenedQp>();
  opened->charge = context_.take(configuration::Kind::kQueuePairs);
  if (!opened->charge) return ENOMEM;
  opened->qp = found->second.lock();
  opened->user_handle = request.user_handle;
  opened->xrc_domain = request.xrc_domain;
  if (opened->qp->holders == kMostHolders)
    return context_.refuse(ENOMEM, "qp_num %u is open %u times, the most", request.qpn,
                           kMostHolders);
  ++opened->qp->holders;
  context_.on_engine(engine::ShareQp{.qp = opened->qp->engine,
                                     .session = context_.engine_session(),
                                     .user_handle = request.user_handle});
  count_opened(*opened, *open);
  OpenedQp& made = *opened;
  const std::uint32_t handle = opened_.add(std::move(opened));
  made.record = context_.write_object(records::Kind::kOpenedQueuePair,
                                      record::OpenedQueuePair{.key = context_.record_key(),
                                                              .user_handle = request.user_handle,
                                                              .handle = handle,
                                                              .number = request.qpn,
                                                              .xrc_domain = request.xrc_domain,
                                                              .reserved = 0});
  reply.write(abi::HandleBody{handle, 0});
  return 0;
}

void QpObjects::count_opened(const OpenedQp& opened, OpenXrcDomain& open) {
  ++open.users;
  Opened& target = opened_by_number_[opened.qp->engine.qpn.value];
  target = {opened.qp.get(), target.times + 1};
}

int QpObjects::close(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto opened = opened_.remove(request.handle);
  if (opened == nullptr) return context_.refuse_unknown("queue pair");
  const auto target = opened_by_number_.find(opened->qp->engine.qpn.value);
  if (--target->second.times == 0) opened_by_number_.erase(target);
  release(opened->qp, opened->user_handle, opened->xrc_domain);
  return 0;
}

/// Releases a target that this process made or opened. The last process to do so ends it.
void QpObjects::release(const std::shared_ptr<QpObject>& qp, std::uint64_t user_handle,
                        std::uint32_t domain) {
  const bool last = let_go(*qp, domain);
  context_.on_engine(engine::ReleaseQp{.qp = qp->engine,
                                       .session = context_.engine_session(),
                                       .user_handle = user_handle,
                                       .is_last = last});
  --domains_.find(domain)->users;
}

}  // namespace softhca::control
