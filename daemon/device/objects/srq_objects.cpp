// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/srq_objects.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/engine/requests/receive_queue_requests.hpp"

namespace softhca::control {

bool SrqObjects::end(const Turn& turn) {
  constexpr std::uint32_t kAtOnce = 64;
  std::vector<engine::SharedReceiveQueue*> some;
  while (of_xrc_ != 0 && next_retired_ < srqs_.slots()) {
    some.clear();
    for (const std::uint32_t end = std::min(next_retired_ + kAtOnce, srqs_.slots());
         next_retired_ < end; ++next_retired_) {
      SrqObject* const srq = srqs_.find(next_retired_);
      if (srq != nullptr && srq->xrc_domain != abi::kNoHandle) some.push_back(&srq->engine);
    }
    context_.on_engine(engine::RetireSrqs{some});
    // A destroy that the end interrupted has searched targets for its own queue only.
    if (next_retired_ >= srqs_.slots()) next_slot_ = 0;
    if (turn.is_over()) return false;
  }
  while (of_xrc_ != 0) {
    if (drop_retired()) of_xrc_ = 0;
    if (turn.is_over()) return false;
  }
  return context_.remove_all(turn, srqs_,
                             [](SrqObject& srq) { return engine::RemoveSrq{srq.engine}; });
}

/// Removes retired queues from targets. Returns true if no target has retired queues of the
/// session.
bool SrqObjects::drop_retired() {
  const std::optional<std::uint32_t> next = context_.on_engine(
      engine::DropRetiredSrqs{.payer = context_.engine_session(), .slot = next_slot_});
  next_slot_ = next.value_or(0);
  return !next;
}

int SrqObjects::check_create(const abi::CreateXrcSrqRequest& request) const {
  const configuration::DeviceConfig& device = context_.device();
  const abi::CreateSrqRequest& plain = request.srq;
  if (pds_.find(plain.pd) == nullptr) return context_.refuse_unknown("protection domain");
  if (plain.max_wr == 0 || plain.max_wr > device.kMaxSrqWr)
    return context_.refuse(EINVAL, "max_wr %u, must be 1 to %u", plain.max_wr, device.kMaxSrqWr);
  if (plain.max_sge > device.kMaxSge)
    return context_.refuse(EINVAL, "max_sge %u, at most %u", plain.max_sge, device.kMaxSge);
  if (plain.limit > plain.max_wr)
    return context_.refuse(EINVAL, "srq_limit %u, at most max_wr %u", plain.limit, plain.max_wr);
  if (request.xrc_domain == abi::kNoHandle) return 0;
  if (domains_.find(request.xrc_domain) == nullptr) return context_.refuse_unknown("XRC domain");
  return cqs_.find(request.cq) != nullptr ? 0 : context_.refuse_unknown("completion queue");
}

int SrqObjects::create(const RequestBody& body, Reply& reply) {
  abi::CreateXrcSrqRequest whole{.srq = {}, .xrc_domain = abi::kNoHandle, .cq = abi::kNoHandle};
  if (body.read(whole)) {
    if (whole.xrc_domain == abi::kNoHandle) return EINVAL;
  } else if (!body.read(whole.srq)) {
    return EINVAL;
  }
  if (const int error = check_create(whole)) return error;
  const abi::CreateSrqRequest& request = whole.srq;

  const std::uint32_t entries = std::bit_ceil(request.max_wr);
  const std::uint32_t max_sge = request.max_sge == 0 ? 1 : request.max_sge;
  const std::size_t bytes = shm::ReceiveRing::bytes_for(entries, max_sge);
  const bool is_used_at_once = whole.xrc_domain != abi::kNoHandle;
  if (is_used_at_once && !rings_.has_sealed_room(bytes))
    return rings_.reserve<abi::CreateSrqReply>(bytes, reply);

  auto srq = std::make_unique<SrqObject>();
  srq->charge = context_.take(configuration::Kind::kSharedReceiveQueues);
  if (!srq->charge) return ENOMEM;
  srq->max_sge = max_sge;
  srq->accounts =
      context_.take(configuration::Kind::kQueueBytes, receive::Provisioner::bytes_for(entries));
  if (!srq->accounts) return ENOMEM;
  abi::CreateSrqReply out{};
  if (const int error = rings_.allocate(bytes, reply, srq->ring, out.new_segment)) return error;
  fill(*srq, whole, entries);
  context_.on_engine(engine::AddSrq{srq->engine});
  out.entries = entries;
  out.max_wr = srq->max_wr;
  out.max_sge = srq->max_sge;
  out.ring = srq->ring.location;
  out.number = srq->engine.number;
  SrqObject& made = *srq;
  out.handle = srqs_.add(std::move(srq));
  made.kept = {.key = context_.record_key(),
               .handle = out.handle,
               .number = out.number,
               .request = whole,
               .ring = {}};
  write(made);
  reply.write(out);
  return 0;
}

/// Sets everything but the charges and the memory. REQUIRES: the request was checked.
void SrqObjects::fill(SrqObject& srq, const abi::CreateXrcSrqRequest& whole,
                      std::uint32_t entries) {
  const abi::CreateSrqRequest& request = whole.srq;
  PdObject& pd = *pds_.find(request.pd);
  srq.pd = PdUse(pd, PdUser::kSharedReceiveQueue);
  srq.max_wr = request.max_wr;
  srq.engine.session = &context_.engine_session();
  srq.engine.ring = shm::ReceiveRing(srq.ring.base, entries, srq.max_sge);
  srq.engine.user_handle = request.user_handle;
  srq.engine.pd = pd.id;
  srq.engine.level.arm(request.limit);
  srq.xrc_domain = whole.xrc_domain;
  srq.cq = whole.cq;
  if (OpenXrcDomain* open = domains_.find(whole.xrc_domain)) {
    srq.engine.xrc_domain = open->domain->id;
    srq.engine.cq = &cqs_.find(whole.cq)->engine;
    ++open->users;
    ++cqs_.find(whole.cq)->shared_receive_queues;
    ++of_xrc_;
  }
  const engine::Tenant& tenant = context_.tenant();
  if (accounts_wanted(tenant.receive_policy, tenant.receive_rules))
    srq.engine.provisioner = make_provisioner(entries);
}

/// Writes the record of a queue as it is now, or as it moves from `retired`. The limit that is
/// armed lies behind the ring.
void SrqObjects::write(SrqObject& srq, const record::RetiredReceiveRing& retired) const {
  srq.kept.request.srq.limit = 0;
  srq.kept.request.srq.max_wr = srq.max_wr;
  srq.kept.request.srq.max_sge = srq.max_sge;
  srq.kept.ring = srq.ring.location;
  records::BodyWriter body;
  body.add(srq.kept).add(retired);
  if (srq.record)
    srq.record.replace(body.bytes());
  else
    srq.record = context_.write(records::Kind::kSharedReceiveQueue, body.bytes());
}

/// Finds the ring that srq.kept names, and `other`, from which the queue was moving there when the
/// earlier adapter ended. If its engine had not moved it, srq.kept names `other` afterwards.
/// Returns false if a ring does not fit.
bool SrqObjects::restore_rings(SrqObject& srq, record::RetiredReceiveRing other) {
  abi::CreateSrqRequest& request = srq.kept.request.srq;
  const auto restore_ring = [&](const abi::RingLocation& location, Ring& ring) {
    const std::uint32_t entries = std::bit_ceil(request.max_wr);
    return check_create(srq.kept.request) == 0 && request.max_sge != 0 &&
           location.bytes == shm::ReceiveRing::bytes_for(entries, request.max_sge) &&
           rings_.restore(location, ring);
  };
  if (!restore_ring(srq.kept.ring, srq.ring)) return false;
  if (other.ring.bytes == 0) return true;
  const shm::ReceiveRing there(srq.ring.base, std::bit_ceil(request.max_wr), request.max_sge);
  const std::uint32_t max_wr = std::exchange(request.max_wr, other.max_wr);
  if (!restore_ring(other.ring, srq.retired)) return false;
  if (there.published_move()) {
    request.max_wr = max_wr;
  } else {
    std::swap(srq.ring, srq.retired);
    srq.kept.ring = other.ring;
  }
  return true;
}

bool SrqObjects::restore(const KeptReceiveQueue& record_body, records::Record record) {
  auto srq = std::make_unique<SrqObject>();
  srq->charge = context_.take(configuration::Kind::kSharedReceiveQueues);
  srq->kept = record_body.head;
  if (!srqs_.has_place(record_body.head.handle) || !restore_rings(*srq, record_body.retired))
    return false;
  const abi::CreateSrqRequest& request = srq->kept.request.srq;
  const std::uint32_t entries = std::bit_ceil(request.max_wr);
  srq->max_sge = request.max_sge;
  srq->accounts =
      context_.take(configuration::Kind::kQueueBytes, receive::Provisioner::bytes_for(entries));
  fill(*srq, srq->kept.request, entries);
  srq->record = std::move(record);
  if (!context_.on_engine(engine::AddSrq{srq->engine, record_body.head.number})) return false;
  SrqObject* const made = srqs_.add(std::move(srq), record_body.head.handle);
  if (made->retired.location.bytes != 0) write(*made);
  return true;
}

int SrqObjects::modify(const RequestBody& body, Reply&) {
  abi::ModifySrqRequest request;
  if (!body.read(request)) return EINVAL;
  SrqObject* srq = srqs_.find(request.handle);
  if (srq == nullptr) return context_.refuse_unknown("shared receive queue");
  if (request.limit > srq->max_wr)
    return context_.refuse(EINVAL, "srq_limit %u, at most max_wr %u", request.limit, srq->max_wr);
  context_.on_engine(engine::ArmSrqLimit{.srq = srq->engine, .limit = request.limit});
  return 0;
}

/// Makes a provisioner on this thread, so that the engine need not allocate.
std::unique_ptr<receive::Provisioner> SrqObjects::make_provisioner(std::uint32_t entries) const {
  engine::Tenant& tenant = context_.tenant();
  return std::make_unique<receive::Provisioner>(entries, tenant.receive_policy,
                                                tenant.counters.receive);
}

/// Moves a queue to another ring. Copies the work requests on this thread, while the engine
/// continues with the old ring.
int SrqObjects::move(SrqObject& srq, std::uint32_t max_wr, const shm::ReceiveRing& from,
                     Reply& reply, abi::CreateSrqReply& out) {
  const std::uint32_t entries = std::bit_ceil(max_wr);
  configuration::Charge accounts =
      context_.take(configuration::Kind::kQueueBytes, receive::Provisioner::bytes_for(entries));
  if (!accounts) return ENOMEM;
  Ring ring;
  const std::size_t bytes = shm::ReceiveRing::bytes_for(entries, srq.max_sge);
  if (const int error = rings_.allocate(bytes, reply, ring, out.new_segment)) return error;
  const shm::ReceiveRing copy = from.copy_to(ring.base, entries);
  const engine::Tenant& tenant = context_.tenant();
  std::unique_ptr<receive::Provisioner> provisioner;
  if (srq.engine.provisioner || accounts_wanted(tenant.receive_policy, tenant.receive_rules))
    provisioner = make_provisioner(entries);
  const record::RetiredReceiveRing old{srq.ring.location, srq.max_wr, 0};
  Ring former = std::exchange(srq.ring, std::move(ring));
  srq.max_wr = max_wr;
  // The record has both rings before the engine moves the queue. Only then the new one says so.
  write(srq, old);
  provisioner = context_.on_engine(
      engine::ResizeSrq{.srq = srq.engine, .ring = copy, .made = std::move(provisioner)});
  write(srq);
  rings_.release(former);
  rings_.release(srq.retired);
  srq.accounts = std::move(accounts);
  return 0;
}

int SrqObjects::resize(const RequestBody& body, Reply& reply) {
  abi::ResizeSrqRequest request;
  if (!body.read(request)) return EINVAL;
  SrqObject* srq = srqs_.find(request.handle);
  if (srq == nullptr) return context_.refuse_unknown("shared receive queue");
  if (request.max_wr == 0 || request.max_wr > context_.device().kMaxSrqWr)
    return context_.refuse(EINVAL, "max_wr %u, must be 1 to %u", request.max_wr,
                           context_.device().kMaxSrqWr);
  std::optional<std::uint32_t> limit;
  if (request.sets_limit != 0) limit = request.limit;
  const std::optional<shm::ReceiveRing> ring = context_.on_engine(
      engine::CheckSrqResize{.srq = srq->engine, .max_wr = request.max_wr, .limit = limit});
  if (!ring)
    return context_.refuse(EINVAL, "max_wr %u is below the receives that are posted, or the limit",
                           request.max_wr);
  const std::uint32_t entries = std::bit_ceil(request.max_wr);
  abi::CreateSrqReply out{};
  if (entries != ring->entries()) {
    const std::size_t bytes = shm::ReceiveRing::bytes_for(entries, srq->max_sge);
    if (!rings_.has_sealed_room(bytes)) return rings_.reserve<abi::CreateSrqReply>(bytes, reply);
    if (const int error = move(*srq, request.max_wr, *ring, reply, out)) return error;
  } else {
    srq->max_wr = request.max_wr;
    write(*srq);
  }
  if (limit) context_.on_engine(engine::ArmSrqLimit{.srq = srq->engine, .limit = *limit});
  out.handle = request.handle;
  out.entries = entries;
  out.max_wr = srq->max_wr;
  out.max_sge = srq->max_sge;
  out.ring = srq->ring.location;
  out.number = srq->engine.number;
  reply.write(out);
  return 0;
}

int SrqObjects::query(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const SrqObject* srq = srqs_.find(request.handle);
  if (srq == nullptr) return context_.refuse_unknown("shared receive queue");
  const std::uint32_t limit = context_.on_engine(engine::QuerySrqLimit{srq->engine});
  reply.write(abi::QuerySrqReply{
      .max_wr = srq->max_wr, .max_sge = srq->max_sge, .limit = limit, .reserved = 0});
  return 0;
}

/// Destroys a queue. Returns kUnfinished while a queue of XRC is being removed from targets, which
/// may be many.
int SrqObjects::destroy(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  SrqObject* const found = srqs_.find(request.handle);
  if (found == nullptr) return context_.refuse_unknown("shared receive queue");
  if (found->users != 0)
    return context_.refuse(EBUSY, "in use by %s", counted(found->users, "queue pair").c_str());
  if (found->xrc_domain != abi::kNoHandle) {
    engine::SharedReceiveQueue* const retiring = &found->engine;
    if (!retiring->retired) context_.on_engine(engine::RetireSrqs{{&retiring, 1}});
    if (!drop_retired()) return kUnfinished;
  }
  const auto srq = srqs_.remove(request.handle);
  context_.on_engine(engine::RemoveSrq{srq->engine});
  if (srq->xrc_domain != abi::kNoHandle) {
    --of_xrc_;
    --domains_.find(srq->xrc_domain)->users;
    --cqs_.find(srq->cq)->shared_receive_queues;
  }
  srq->record.erase();
  rings_.release(srq->ring);
  rings_.release(srq->retired);
  return 0;
}

}  // namespace softhca::control
