// Extended reliable connected service (XRC): domains and targets, which processes may share.
#include <cerrno>
#include <utility>

#include "daemon/control/session/session.hpp"

namespace softhca::control {

int Session::open_xrc_domain(const RequestBody& body, Reply& reply) {
  abi::OpenXrcDomainRequest request;
  if (!body.read(request)) return EINVAL;
  constexpr std::uint32_t kKnown = abi::kXrcOfFile | abi::kXrcCreate | abi::kXrcExclusive;
  if ((request.flags & ~kKnown) != 0) return EINVAL;
  auto open = std::make_unique<XrcDomainOpen>();
  open->charge = take(Kind::kProtectionDomains);
  if (!open->charge) return ENOMEM;
  if ((request.flags & abi::kXrcOfFile) == 0) {
    open->domain = shared_.xrc_domains.make();
  } else {
    auto domain = shared_.xrc_domains.open(
        {.tenant = tenant_.id, .user = peer_.uid, .device = request.device, .inode = request.inode},
        (request.flags & abi::kXrcCreate) != 0, (request.flags & abi::kXrcExclusive) != 0);
    if (!domain) return domain.error().code;
    open->domain = std::move(*domain);
  }
  reply.write(abi::HandleBody{xrc_domains_.add(std::move(open)), 0});
  return 0;
}

int Session::close_xrc_domain(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const XrcDomainOpen* open = xrc_domains_.find(request.handle);
  if (open == nullptr) return EINVAL;
  if (open->users != 0) return EBUSY;
  xrc_domains_.remove(request.handle);
  return 0;
}

/// It has no rings: nothing is posted to it.
int Session::create_xrc_target(const abi::CreateQpRequest& request, Reply& reply) {
  XrcDomainOpen* open = xrc_domains_.find(request.xrc_domain);
  if (open == nullptr) return EINVAL;
  auto qp = std::make_shared<Qp>();
  qp->charge = take(Kind::kQueuePairs);
  if (!qp->charge) return ENOMEM;
  qp->request = request;
  engine::QueuePair& e = qp->engine;
  e.type = engine::QpType::kXrcReceive;
  e.session = engine_session_.get();
  e.tenant = &tenant_;
  e.user_handle = request.user_handle;
  e.xrc_domain = open->domain->id;
  e.rc.mtu = adapter_.path_mtu(tenant_);
  bool installed = false;
  on_engine([&](engine::Engine& engine) { installed = engine.install(e); });
  if (!installed) return ENOMEM;
  ++open->users;
  abi::CreateQpReply out{};
  out.qpn = e.qpn.value;
  open->domain->targets[out.qpn] = qp;
  qps_.emplace(out.qpn, std::move(qp));
  reply.write(out);
  return 0;
}

int Session::open_qp(const RequestBody& body, Reply& reply) {
  abi::OpenQpRequest request;
  if (!body.read(request)) return EINVAL;
  XrcDomainOpen* open = xrc_domains_.find(request.xrc_domain);
  if (open == nullptr) return EINVAL;
  const auto found = open->domain->targets.find(request.qpn);
  if (found == open->domain->targets.end()) return EINVAL;
  auto opened = std::make_unique<OpenedQp>();
  opened->charge = take(Kind::kQueuePairs);
  if (!opened->charge) return ENOMEM;
  opened->qp = found->second.lock();
  opened->user_handle = request.user_handle;
  opened->xrc_domain = request.xrc_domain;
  ++opened->qp->holders;
  on_engine([&](engine::Engine& engine) {
    engine.share(opened->qp->engine, {engine_session_.get(), request.user_handle});
  });
  ++open->users;
  reply.write(abi::HandleBody{opened_qps_.add(std::move(opened)), 0});
  return 0;
}

int Session::close_qp(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto opened = opened_qps_.remove(request.handle);
  if (opened == nullptr) return EINVAL;
  let_go(opened->qp, opened->user_handle);
  --xrc_domains_.find(opened->xrc_domain)->users;
  return 0;
}

/// This process, which made or opened the target, does so no longer; the last one ends it. Whoever
/// holds a target has its domain open.
void Session::let_go(const std::shared_ptr<Qp>& qp, std::uint64_t user_handle) {
  const bool last = --qp->holders == 0;
  if (last)
    xrc_domains_.for_each([&](std::uint32_t, const XrcDomainOpen& open) {
      if (open.domain->id == qp->engine.xrc_domain)
        open.domain->targets.erase(qp->engine.qpn.value);
    });
  on_engine([&](engine::Engine& engine) {
    if (last)
      engine.remove(qp->engine);
    else
      engine.unshare(qp->engine, {engine_session_.get(), user_handle});
  });
}

}  // namespace softhca::control
