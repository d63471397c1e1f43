// SPDX-License-Identifier: Apache-2.0

// The queue pairs of a program.
#include <algorithm>
#include <bit>

#include "tests/fuzz/requests/program.hpp"

namespace softhca::fuzz {
namespace {

using engine::QpState;
using engine::QpType;
namespace attr = engine::attr;

constexpr std::uint32_t kQpAccess = memory::kLocalWrite | memory::kRemoteWrite |
                                    memory::kRemoteRead | memory::kRemoteAtomic |
                                    memory::kFlushGlobal;
constexpr std::uint8_t kPathMtuCode = 3;  ///< 1024 bytes

/// Returns the attributes that the transition needs.
std::uint32_t required(QpType type, QpState from, QpState to) {
  const bool datagrams = type == QpType::kUd;
  switch (to) {
    case QpState::kInit:
      return attr::kPkeyIndex | attr::kPort | (datagrams ? attr::kQkey : attr::kAccessFlags);
    case QpState::kRtr:
      if (datagrams) return 0;
      return attr::kAv | attr::kPathMtu | attr::kDestQpn | attr::kRqPsn |
             (engine::is_responder(type) ? attr::kMaxDestRdAtomic | attr::kMinRnrTimer : 0);
    case QpState::kRts:
      if (from != QpState::kRtr) return 0;
      if (type == QpType::kXrcReceive) return attr::kTimeout | attr::kSqPsn;
      if (!engine::is_reliable(type)) return attr::kSqPsn;
      return attr::kTimeout | attr::kRetryCount | attr::kRnrRetry | attr::kSqPsn |
             attr::kMaxRdAtomic;
    default:
      return 0;
  }
}

/// Returns the state that follows on the way to RTS.
QpState next_state(QpState state) {
  switch (state) {
    case QpState::kReset:
      return QpState::kInit;
    case QpState::kInit:
      return QpState::kRtr;
    case QpState::kError:
      return QpState::kReset;
    default:
      return QpState::kRts;
  }
}

}  // namespace

Qp* Program::any_held() {
  return holds_.empty() ? nullptr : holds_[input_.byte() % holds_.size()].qp.get();
}

void Program::use_queues(const Qp& qp, std::uint32_t one) {
  if (qp.send != nullptr) qp.send->users += one;
  if (qp.receive != nullptr) qp.receive->users += one;
  if (qp.srq != nullptr) qp.srq->users += one;
}

void Program::make_qp() {
  static constexpr std::array kTypes = {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kXrcSend};
  begin();
  if (!has_room(holds_.size())) return;
  const std::uint32_t type = input_.below(5);
  if (type == 4) return install_target();
  const engine::QpOptions options{.type = kTypes[type],
                                  .send_entries = std::bit_ceil(1 + input_.below(8)),
                                  .receive_entries = std::bit_ceil(1 + input_.below(8)),
                                  .max_sge = Srq::kMaxSge};
  const auto qp = std::make_shared<Qp>(options);
  engine::QueuePair& e = qp->engine;
  e.type = kTypes[type];
  e.session = session_.get();
  e.tenant = &tenant_;
  e.user_handle = common_.next_handle++;
  e.pd = pds_[input_.byte() % 2];
  e.signal_all = input_.flag();
  e.sq.ring = shm::SendRing(qp->test.send_memory.base(), options.send_entries, qp->test.stride);
  qp->send = &any_cq();
  e.sq.cq = &qp->send->engine;
  if (e.type != QpType::kXrcSend) {
    qp->receive = &any_cq();
    e.rq.cq = &qp->receive->engine;
    if (input_.flag()) qp->srq = any(srqs_);
    if (qp->srq != nullptr && qp->srq->engine.retired) qp->srq = nullptr;
    if (qp->srq != nullptr)
      e.srq = &qp->srq->engine;
    else
      e.rq.ring =
          shm::ReceiveRing(qp->test.receives.base(), options.receive_entries, options.max_sge);
  }
  e.rc.mtu = Bench::kPathMtu;
  if (!ask(engine::InstallQp{e})) return;
  const Qpn number = e.qpn;
  ask(engine::RemoveQp{e});
  const auto restored =
      ask(engine::RestoreQp{.qp = e, .number = number, .attributes = {}, .path = {}});
  require(restored == engine::RestoreQp::Result::kNotLeft, "it is new under its number");
  use_queues(*qp, 1);
  common_.names.queue_pairs.add(e.qpn.value);
  common_.queue_pairs.push_back(qp.get());
  holds_.push_back({qp, e.user_handle});
}

/// An XRC target has no rings: no program posts to it.
void Program::install_target() {
  const auto qp = std::make_shared<Qp>(engine::QpOptions{.type = QpType::kXrcReceive});
  Domain& domain = domains_[input_.byte() % domains_.size()];
  engine::QueuePair& e = qp->engine;
  e.type = QpType::kXrcReceive;
  e.session = session_.get();
  e.tenant = &tenant_;
  e.user_handle = common_.next_handle++;
  e.xrc_domain = domain.id;
  e.rc.mtu = Bench::kPathMtu;
  if (!ask(engine::InstallQp{e})) return;
  domain.targets.push_back(qp);
  common_.names.queue_pairs.add(e.qpn.value);
  common_.queue_pairs.push_back(qp.get());
  holds_.push_back({qp, e.user_handle});
}

void Program::open_target() {
  begin();
  const auto& targets = domains_[input_.byte() % domains_.size()].targets;
  if (targets.empty() || !has_room(holds_.size())) return;
  const auto& qp = targets[input_.byte() % targets.size()];
  ++qp->holders;
  holds_.push_back({qp, common_.next_handle++});
  ask(engine::ShareQp{
      .qp = qp->engine, .session = *session_, .user_handle = holds_.back().user_handle});
}

/// Forgets the names of a queue pair that ends.
void Program::forget(const Qp& qp) {
  std::erase(common_.queue_pairs, &qp);
  for (Domain& domain : domains_)
    std::erase_if(domain.targets, [&](const auto& target) { return target.get() == &qp; });
}

/// Ends a hold. Returns true if it was the last one.
bool Program::let_go(const std::shared_ptr<Qp>& qp) {
  if (--qp->holders != 0) return false;
  forget(*qp);
  return true;
}

void Program::release(std::size_t hold) {
  const auto [qp, user_handle] = holds_[hold];
  const bool last = let_go(qp);
  ask(engine::ReleaseQp{
      .qp = qp->engine, .session = *session_, .user_handle = user_handle, .is_last = last});
  holds_.erase(holds_.begin() + static_cast<std::ptrdiff_t>(hold));
}

void Program::destroy_qp() {
  if (holds_.empty()) return;
  const std::size_t hold = input_.byte() % holds_.size();
  const auto qp = holds_[hold].qp;
  engine::QueuePair& e = qp->engine;
  if (!e.groups.empty()) return;
  const auto waits =
      ask(engine::AwaitSends{.qp = e, .send_sequence = qp->test.sequence, .waited = qp->waited});
  qp->waited = waits.value_or(engine::SendWait{});
  if (waits) return;
  if (!e.sends()) return release(hold);
  ask(engine::RemoveQp{e});
  forget(*qp);
  use_queues(*qp, std::uint32_t(-1));
  holds_.erase(holds_.begin() + static_cast<std::ptrdiff_t>(hold));
}

void Program::end_queue_pairs(unsigned steps) {
  std::vector<engine::ReleaseQp> requests;
  for (const Hold& hold : holds_) {
    const bool last = let_go(hold.qp);
    requests.push_back({.qp = hold.qp->engine,
                        .session = *session_,
                        .user_handle = hold.user_handle,
                        .is_last = last});
  }
  for (std::span<engine::ReleaseQp> left(requests); !left.empty();)
    left = left.subspan(ask(engine::Several<engine::ReleaseQp>{left}));
  holds_.clear();
  common_.bench.poll(steps);
}

// --- attributes

/// As an address vector makes one: from an address of the tenant to any of the same family.
std::optional<engine::AddressPath> Program::any_path(const Gid* destination) {
  engine::AddressPath path;
  const auto& source = tenant_.addresses[input_.byte() % tenant_.addresses.size()];
  path.source = source.gid;
  path.port = source.port;
  path.destination = destination != nullptr ? *destination : any_address(input_);
  path.traffic_class = input_.byte();
  path.service_level = input_.byte() % 17;
  path.flow_label = input_.byte();
  if (path.destination.is_zero() || path.destination.is_ipv4() != path.source.is_ipv4())
    return std::nullopt;
  return path;
}

abi::QpAttributes Program::any_attributes(const Qp& qp, std::uint32_t mask) {
  abi::QpAttributes a{};
  a.mask = mask;
  a.path_mtu = 1 + input_.below(kPathMtuCode);
  a.qkey = input_.byte() % 8 != 7 ? kQkey : 0x22222222;
  a.rq_psn = a.sq_psn = 0xfffff0 + input_.byte() % 32u;
  const std::uint8_t access = input_.byte();
  a.access_flags = access < 128 ? kQpAccess : access & kQpAccess;
  if (qp.engine.type == QpType::kUd)
    a.access_flags &= ~std::uint32_t{memory::kRemoteRead | memory::kRemoteAtomic};
  a.en_sqd_async_notify = input_.byte() & 1;
  a.max_rd_atomic = input_.byte() % 5;
  a.max_dest_rd_atomic = input_.byte() % 5;
  a.min_rnr_timer = input_.byte() % 32;
  a.timeout = input_.byte() % 12;
  a.retry_cnt = a.rnr_retry = input_.byte() % 8;
  a.port_num = 1;
  a.cur_qp_state = static_cast<std::uint32_t>(qp.engine.state);
  return a;
}

engine::ModifyQp::Answer Program::modify(Qp& qp, const abi::QpAttributes& attributes,
                                         const std::optional<engine::AddressPath>& path) {
  using Result = engine::ModifyQp::Result;
  const auto answer = ask(engine::ModifyQp{.qp = qp.engine,
                                           .attributes = attributes,
                                           .path = path,
                                           .send_sequence = qp.test.sequence,
                                           .waited = qp.waited});
  qp.waited = answer.waited;
  if (answer.result == Result::kDone && answer.state == QpState::kReset && qp.engine.receives()) {
    qp.test.receives.restart();
    qp.test.next_receive = 0;
  }
  return answer;
}

void Program::bring_up() {
  Qp* const qp = any_held();
  if (qp == nullptr) return;
  Qp* const peer = common_.any_queue_pair();
  const bool local = input_.flag();
  const std::uint32_t steps = 1 + input_.below(4);
  for (std::uint32_t i = 0; i < steps && qp->engine.state != QpState::kRts; ++i) {
    const QpState to = next_state(qp->engine.state);
    abi::QpAttributes a =
        any_attributes(*qp, attr::kState | required(qp->engine.type, qp->engine.state, to));
    a.qp_state = static_cast<std::uint32_t>(to);
    std::optional<engine::AddressPath> path;
    if ((a.mask & attr::kAv) != 0) {
      const engine::Tenant& there = *peer->engine.tenant;
      path = any_path(local && !there.addresses.empty() ? &there.addresses.front().gid : nullptr);
      a.dest_qp_num = local ? peer->engine.qpn.value : 0x77;
      if (!path) return;
    }
    if (modify(*qp, a, path).result != engine::ModifyQp::Result::kDone) return;
  }
}

/// Any attributes, and mostly those of a transition that the states allow.
void Program::modify_qp() {
  Qp* const qp = any_held();
  if (qp == nullptr) return;
  const auto to = static_cast<QpState>(input_.below(7));
  std::uint32_t mask = required(qp->engine.type, qp->engine.state, to);
  const std::uint8_t choice = input_.byte();
  if ((choice & 1) == 0) mask |= attr::kState;
  if ((choice & 2) != 0) mask |= attr::kCurState;
  constexpr std::uint32_t kRefused = attr::kAltPath | attr::kPathMigState | attr::kCap;
  if ((choice & 4) != 0) mask ^= input_.take<std::uint32_t>() & ((attr::kDestQpn << 1) - 1);
  mask &= ~kRefused;
  abi::QpAttributes a = any_attributes(*qp, mask);
  a.qp_state = static_cast<std::uint32_t>(to);
  a.dest_qp_num = common_.names.queue_pairs.any(input_) & 0xffffff;
  if ((choice & 8) != 0) a.cur_qp_state = input_.below(8);
  std::optional<engine::AddressPath> path;
  if ((mask & attr::kAv) != 0 && !(path = any_path(nullptr))) return;
  (void)modify(*qp, a, path);
}

void Program::query_qp() {
  Qp* const qp = any_held();
  if (qp != nullptr) (void)ask(engine::QueryQp{qp->engine});
}

// --- groups

void Program::join_group() {
  Qp* const qp = any_held();
  if (qp == nullptr || qp->engine.type != QpType::kUd) return;
  (void)ask(engine::AttachMulticast{.qp = qp->engine, .group = one_of(kGroups, input_)});
}

void Program::leave_group() {
  Qp* const qp = any_held();
  if (qp == nullptr || qp->engine.type != QpType::kUd) return;
  (void)ask(engine::DetachMulticast{.qp = qp->engine, .group = one_of(kGroups, input_)});
}

// --- terms that the operator sets

void Program::set_rates() {
  Qp* const qp = any_held();
  if (qp == nullptr) return;
  const auto any_limits = [&]() -> RateLimits {
    static constexpr std::uint64_t kRates[] = {0, 1, 100'000, 50'000'000};
    const std::uint8_t choice = input_.byte();
    return {.bytes_per_second = kRates[choice % 4],
            .burst_bytes = 1u << (choice / 4 % 4 * 6),
            .messages_per_second = kRates[choice / 16 % 4],
            .burst_messages = 1u << (choice / 64 * 2)};
  };
  engine::SetQpRates set{.qpn = qp->engine.qpn,
                         .sent = {any_limits(), 0},
                         .inbound = {any_limits()},
                         .served = {any_limits()},
                         .made = std::make_unique<engine::QpRates>()};
  if (input_.byte() > 250) set.qpn = Qpn(common_.names.queue_pairs.any(input_));
  // The minimums of queue pairs are parts of that of their level or tenant.
  const schedule::MinimumRates& minimums = common_.bench.view.minimums;
  const engine::Level* const level = engine::level_of(qp->engine);
  std::uint64_t free = (level != nullptr ? minimums.of(level->qos_class) : minimums.of(tenant_.id))
                           .rate()
                           .per_second;
  for (const Qp* other : common_.queue_pairs)
    if (other != qp && other->engine.qos_class == qp->engine.qos_class)
      free -= std::min(free, minimums.of_queue_pair(other->engine.slot).per_second);
  if (set.sent.bytes_per_second != 0) free = std::min(free, set.sent.bytes_per_second);
  if (set.qpn == qp->engine.qpn) set.sent.min_bytes_per_second = free * (input_.byte() % 3) / 2;
  common_.bench.ask(set);
}

void Program::set_receive_terms() {
  Qp* const qp = any_held();
  if (qp == nullptr) return;
  engine::ReceiveQueues::ReceiveTerms terms;
  const std::uint8_t choice = input_.byte();
  if ((choice & 1) != 0) terms.limit = (choice & 2) != 0 ? receive::Member::kByPolicy : choice >> 5;
  if ((choice & 4) != 0)
    terms.importance = (choice & 8) != 0 ? receive::Member::kByPath : choice >> 5;
  const auto [srq, entries, provisioned] = common_.bench.ask(engine::FindSrqOfQp{qp->engine});
  if (srq == nullptr) return;
  common_.bench.poll(input_.below(3));
  std::unique_ptr<receive::Provisioner> made;
  if (!provisioned) {
    engine::Tenant& owner = *srq->session->tenant;
    made = std::make_unique<receive::Provisioner>(entries, owner.receive_policy,
                                                  owner.counters.receive);
  }
  (void)common_.bench.ask(engine::SetReceiveTerms{qp->engine.qpn, terms, *srq, std::move(made)});
}

}  // namespace softhca::fuzz
