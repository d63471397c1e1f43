// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/requests/program.hpp"

#include <bit>

namespace softhca::fuzz {
namespace {

using engine::EventType;

constexpr std::uint32_t kMostEntries = 16;

std::uint32_t any_size(Input& input) { return 1 + input.below(kMostEntries); }

}  // namespace

Program::Program(Common& common, engine::Tenant& tenant, engine::Level* level, Domains& domains)
    : common_(common), input_(common.input), tenant_(tenant), domains_(domains) {
  for (memory::PdId& pd : pds_) pd = memory::PdId(common_.next_pd++);
  collect::FunctionTable& functions = common_.bench.view.functions;
  const auto first = functions.find_unassigned(Bench::kVcbs);
  if (first) {
    places_ = Bench::kVcbs;
    require(
        static_cast<bool>(functions.assign(*first, places_, tenant.id,
                                           level != nullptr ? level->qos_class : tenant.qos_class)),
        "VCBs that are free can be assigned");
  }
  memory_ = std::make_unique<RingMemory>(abi::session_bytes(places_));
  shm::SessionView::format(memory_->base(), places_);
  const std::uint32_t id = common_.next_session++;
  session_ = std::make_unique<engine::Session>(
      SessionId(id), tenant, shm::SessionView(memory_->base(), places_), first.value_or(VcbId{}));
  session_->view.revoke(places_ / 2);
  session_->process = id;
  session_->level = level;
  session_->async_end = static_cast<int>(id);
  common_.bench.ask(engine::InstallSession{*session_});
}

Program::~Program() { end(0); }

/// Begins to post, as programs do before they make an object.
void Program::begin() {
  if (std::exchange(begun_, true)) return;
  ask(engine::PollSession{*session_});
}

void Program::raise_port_event() {
  static constexpr std::array kTypes = {EventType::kPortActive, EventType::kPortError,
                                        EventType::kGidChange};
  common_.bench.ask(
      engine::RaisePortEvent{.session = *session_, .type = kTypes[input_.byte() % kTypes.size()]});
}

/// The engine's thread finds the program idle.
void Program::park() {
  if (begun_ && !session_->parked) (void)common_.bench.engine.intake().park(*session_);
}

void Program::unpark() {
  begin();
  ask(engine::UnparkSession{*session_});
}

/// As DeviceSession::end(): objects go before those that they use.
void Program::end(unsigned steps) {
  if (!session_) return;
  end_queue_pairs(steps);
  std::vector<engine::RemoveAh> ahs;
  for (const auto& [handle, ah] : ahs_) ahs.push_back({handle});
  for (std::span<engine::RemoveAh> left(ahs); !left.empty();)
    left = left.subspan(ask(engine::Several<engine::RemoveAh>{left}));
  ahs_.clear();
  common_.bench.poll(steps);
  end_receive_queues(steps);
  for (const auto& cq : cqs_) ask(engine::RemoveCq{cq->engine});
  cqs_.clear();
  common_.bench.poll(steps);
  end_memory(steps);
  ask(engine::RemoveSession{*session_});
  if (places_ != 0)
    require(static_cast<bool>(common_.bench.view.functions.release(session_->first_vcb, places_)),
            "the engine has dropped the VCBs");
  session_.reset();
  memory_.reset();
}

// --- completion queues

void Program::make_cq() {
  begin();
  if (!has_room(cqs_.size())) return;
  const bool has_channel = input_.flag();
  cqs_.push_back(std::make_unique<Cq>(*session_, std::bit_ceil(any_size(input_)),
                                      common_.next_handle++, has_channel));
  ask(engine::RestoreCq{cqs_.back()->engine});
}

Cq& Program::any_cq() {
  if (cqs_.empty()) make_cq();
  return *any(cqs_);
}

void Program::resize_cq() {
  begin();
  Cq& cq = any_cq();
  const std::uint32_t most = any_size(input_);
  const std::uint32_t entries = std::bit_ceil(most);
  if (input_.flag()) ask(engine::UnparkSession{*session_});
  common_.bench.poll(input_.below(3));
  auto ring = Cq::make_ring(entries);
  if (ask(engine::ResizeCq{cq.engine, ring->base(), entries, most, 1})) cq.move(std::move(ring));
}

void Program::moderate_cq() {
  begin();
  ask(engine::ModerateCq{.cq = any_cq().engine,
                         .count = input_.byte() % 4u,
                         .period = std::chrono::microseconds(input_.byte() % 64)});
}

void Program::remove_cq() {
  Cq* const cq = any(cqs_);
  if (cq == nullptr || cq->users != 0) return;
  ask(engine::RemoveCq{cq->engine});
  std::erase_if(cqs_, [&](const auto& other) { return other.get() == cq; });
}

void Program::poll_cq() {
  Cq* const cq = any(cqs_);
  if (cq == nullptr) return;
  cq->header().arm.fetch_or(input_.byte() % 4u);
  cq->poll();
}

// --- shared receive queues

void Program::make_srq() {
  begin();
  if (!has_room(srqs_.size())) return;
  const std::uint32_t max_wr = any_size(input_);
  const std::uint32_t entries = std::bit_ceil(max_wr);
  auto srq = std::make_unique<Srq>(entries);
  srq->max_wr = max_wr;
  srq->engine.session = session_.get();
  srq->engine.ring = shm::ReceiveRing(srq->ring->base(), entries, Srq::kMaxSge);
  srq->engine.user_handle = common_.next_handle++;
  srq->engine.pd = pds_[input_.byte() % 2];
  srq->engine.level.arm(input_.below(max_wr + 1));
  if (input_.flag()) {
    srq->engine.xrc_domain = domains_[input_.byte() % 2].id;
    srq->cq = &any_cq();
    srq->engine.cq = &srq->cq->engine;
    ++srq->cq->users;
  }
  if (accounts_wanted(tenant_.receive_policy, tenant_.receive_rules))
    srq->engine.provisioner = std::make_unique<receive::Provisioner>(
        entries, tenant_.receive_policy, tenant_.counters.receive);
  ask(engine::AddSrq{srq->engine});
  common_.names.receive_queues.add(srq->engine.number);
  srqs_.push_back(std::move(srq));
}

void Program::arm_srq() {
  Srq* const srq = any(srqs_);
  if (srq == nullptr || srq->engine.retired) return;
  ask(engine::ArmSrqLimit{.srq = srq->engine, .limit = input_.below(srq->max_wr + 1)});
  (void)ask(engine::QuerySrqLimit{srq->engine});
}

void Program::resize_srq() {
  Srq* const srq = any(srqs_);
  if (srq == nullptr || srq->engine.retired) return;
  const std::uint32_t max_wr = any_size(input_);
  std::optional<std::uint32_t> limit;
  if (input_.flag()) limit = input_.byte() % (2 * kMostEntries);
  const auto ring =
      ask(engine::CheckSrqResize{.srq = srq->engine, .max_wr = max_wr, .limit = limit});
  if (!ring) return;
  const std::uint32_t entries = std::bit_ceil(max_wr);
  const std::uint32_t steps = input_.below(3);
  if (entries != ring->entries()) {
    // The engine goes on with the old ring meanwhile.
    common_.bench.poll(steps);
    auto memory = Srq::make_ring(entries);
    const shm::ReceiveRing copy = ring->copy_to(memory->base(), entries);
    common_.bench.poll(steps);
    std::unique_ptr<receive::Provisioner> made;
    if (srq->engine.provisioner || accounts_wanted(tenant_.receive_policy, tenant_.receive_rules))
      made = std::make_unique<receive::Provisioner>(entries, tenant_.receive_policy,
                                                    tenant_.counters.receive);
    (void)ask(engine::ResizeSrq{.srq = srq->engine, .ring = copy, .made = std::move(made)});
    srq->ring = std::move(memory);
    srq->posted = srq->producer().load();
  }
  srq->max_wr = max_wr;
  if (limit) ask(engine::ArmSrqLimit{.srq = srq->engine, .limit = *limit});
}

void Program::retire_srq() {
  Srq* const srq = any(srqs_);
  if (srq == nullptr || srq->users != 0 || srq->engine.retired ||
      srq->engine.xrc_domain == engine::XrcDomainId())
    return;
  // One at a time, as each request is answered before the next.
  for (const auto& other : srqs_)
    if (other->engine.retired) return;
  engine::SharedReceiveQueue* const retiring = &srq->engine;
  ask(engine::RetireSrqs{{&retiring, 1}});
}

/// Returns true if no target has a retired queue of the session.
bool Program::drop_some_retired() {
  const auto next = ask(engine::DropRetiredSrqs{.payer = *session_, .slot = next_slot_});
  next_slot_ = next.value_or(0);
  return !next;
}

void Program::remove_srq() {
  Srq* const srq = any(srqs_);
  if (srq == nullptr || srq->users != 0) return;
  const bool of_xrc = srq->engine.xrc_domain != engine::XrcDomainId();
  if (of_xrc && (!srq->engine.retired || !drop_some_retired())) return;
  ask(engine::RemoveSrq{srq->engine});
  if (srq->cq != nullptr) --srq->cq->users;
  std::erase_if(srqs_, [&](const auto& other) { return other.get() == srq; });
}

void Program::show_srq() {
  if (Srq* const srq = any(srqs_)) (void)common_.bench.ask(engine::CopySrq{srq->engine});
}

void Program::end_receive_queues(unsigned steps) {
  std::vector<engine::SharedReceiveQueue*> of_xrc;
  for (const auto& srq : srqs_)
    if (srq->engine.xrc_domain != engine::XrcDomainId()) of_xrc.push_back(&srq->engine);
  if (!of_xrc.empty()) {
    ask(engine::RetireSrqs{of_xrc});
    next_slot_ = 0;
    do common_.bench.poll(steps);
    while (!drop_some_retired());
  }
  for (const auto& srq : srqs_) ask(engine::RemoveSrq{srq->engine});
  srqs_.clear();
  common_.bench.poll(steps);
}

}  // namespace softhca::fuzz
