// SPDX-License-Identifier: Apache-2.0

// The records of queue pairs: writes them, and makes the queue pairs of an earlier adapter again.
#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/device/objects/qp_objects.hpp"
#include "daemon/engine/requests/queue_pair_requests.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"

namespace softhca::control {

/// Writes the record of a queue pair as it is now.
void QpObjects::write(QpObject& qp) const {
  if (context_.keeping() == nullptr) return;
  const bool is_target = !qp.engine.sends();
  record::QueuePair kept{.key = qp.record ? qp.maker : context_.record_key(),
                         .number = qp.engine.qpn.value,
                         .groups = static_cast<std::uint32_t>(qp.groups.size()),
                         .xrc_domain = is_target ? qp.engine.xrc_domain.value : 0,
                         .has_path = qp.path.has_value(),
                         .request = qp.request,
                         .ring = qp.ring.location,
                         .attributes = qp.attributes,
                         .path = recorded(qp.path.value_or(engine::AddressPath())),
                         .group = {}};
  for (std::size_t i = 0; i < qp.groups.size(); ++i)
    std::ranges::copy(qp.groups[i].bytes, kept.group[i]);
  records::BodyWriter body;
  // Most queue pairs have no terms, and take a slot less without them.
  body.add(kept).add(static_cast<std::uint8_t>(qp.terms != nullptr));
  if (qp.terms != nullptr) body.add(*qp.terms);
  if (qp.record) return qp.record.replace(body.bytes());
  qp.maker = kept.key;
  qp.record = context_.write(records::Kind::kQueuePair, body.bytes());
}

/// Gives the engine a queue pair that is complete but for what its program has set. One that the
/// earlier engine has removed, while its adapter had no time to erase the record, is in RESET.
bool QpObjects::install(QpObject& qp, const KeptQueuePair& record_body) {
  const record::QueuePair& kept = record_body.head;
  qp.maker = kept.key;
  qp.attributes = kept.attributes;
  if (kept.has_path != 0) qp.path = path_of(context_, kept.path);
  if ((kept.attributes.mask & engine::attr::kMaxDestRdAtomic) != 0 &&
      engine::is_responder(qp.engine.type))
    qp.reads = context_.take(configuration::Kind::kQueueBytes,
                             transport::Responder::memory_for(kept.attributes.max_dest_rd_atomic));
  const auto restored = context_.on_engine(engine::RestoreQp{
      .qp = qp.engine, .number = Qpn(kept.number), .attributes = kept.attributes, .path = qp.path});
  if (restored == engine::RestoreQp::Result::kNumberTaken) return false;
  for (std::uint32_t i = 0; i < kept.groups; ++i) {
    Gid group;
    std::memcpy(group.bytes.data(), kept.group[i], sizeof kept.group[i]);
    // The queue pair stays even if no port receives packets to groups any more.
    (void)context_.on_engine(engine::AttachMulticast{.qp = qp.engine, .group = group});
    qp.groups.push_back(group);
  }
  restore_terms(qp, record_body.terms);
  return true;
}

bool QpObjects::restore(const KeptQueuePair& record_body, records::Record record) {
  const record::QueuePair& kept = record_body.head;
  if (kept.groups > abi::kMaxMulticastGroups || qps_.contains(kept.number)) return false;
  std::shared_ptr<QpObject> qp;
  if (kept.xrc_domain != 0) {
    OpenXrcDomain* const open = domains_.find(kept.request.xrc_domain);
    if (open == nullptr || open->domain->id.value != kept.xrc_domain) return false;
    qp = make_target(kept.request, *open);
    if (!install(*qp, record_body)) return false;
    ++open->users;
    open->domain->targets[kept.number] = qp;
  } else {
    if (check_create(kept.request) != 0) return false;
    const Sizes sizes(kept.request);
    if (kept.ring.bytes != sizes.send_bytes + sizes.receive_bytes) return false;
    qp = std::make_shared<QpObject>();
    qp->charge = context_.take(configuration::Kind::kQueuePairs);
    if (!rings_.restore(kept.ring, qp->ring)) return false;
    qp->request = kept.request;
    fill(*qp, sizes);
    if (!install(*qp, record_body)) return false;
    use(kept.request, 1);
  }
  qp->record = std::move(record);
  qps_.emplace(kept.number, std::move(qp));
  return true;
}

bool QpObjects::has_target(const record::OpenedQueuePair& opener) const {
  const OpenXrcDomain* const open = domains_.find(opener.xrc_domain);
  return open != nullptr && open->domain->targets.contains(opener.number);
}

bool QpObjects::restore_target(const KeptQueuePair& record_body,
                               const record::OpenedQueuePair& opener, records::Record record) {
  const record::QueuePair& kept = record_body.head;
  OpenXrcDomain* const open = domains_.find(opener.xrc_domain);
  if (open == nullptr || open->domain->id.value != kept.xrc_domain || kept.groups != 0)
    return false;
  auto qp = make_target(kept.request, *open);
  qp->engine.user_handle = opener.user_handle;
  qp->holders = 0;
  if (!install(*qp, record_body)) return false;
  qp->record = std::move(record);
  open->domain->targets[kept.number] = qp;
  restored_target_ = std::move(qp);
  return true;
}

bool QpObjects::restore_opened(const record::OpenedQueuePair& kept, records::Record record) {
  OpenXrcDomain* const open = domains_.find(kept.xrc_domain);
  if (open == nullptr || !opened_.has_place(kept.handle)) return false;
  const auto found = open->domain->targets.find(kept.number);
  auto opened = std::make_unique<OpenedQp>();
  opened->charge = context_.take(configuration::Kind::kQueuePairs);
  if (found != open->domain->targets.end()) opened->qp = found->second.lock();
  if (opened->qp == nullptr) return false;
  opened->user_handle = kept.user_handle;
  opened->xrc_domain = kept.xrc_domain;
  opened->record = std::move(record);
  // The engine has it as the queue pair of this session already if its maker has gone.
  const bool is_heir = opened->qp == std::exchange(restored_target_, nullptr);
  ++opened->qp->holders;
  if (!is_heir)
    context_.on_engine(engine::ShareQp{.qp = opened->qp->engine,
                                       .session = context_.engine_session(),
                                       .user_handle = kept.user_handle});
  count_opened(*opened, *open);
  return opened_.add(std::move(opened), kept.handle) != nullptr;
}

}  // namespace softhca::control
