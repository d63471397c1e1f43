// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/qp_table.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <random>

namespace softhca::engine {
namespace {

// The first and the last generation are not used: they would give the numbers of the daemon's own
// queue pairs and kMulticastQpn.
constexpr std::uint32_t kQpnBits = 24;

}  // namespace

std::uint32_t QpTable::slots_for(std::uint32_t queue_pairs) {
  return std::bit_ceil(std::max(queue_pairs, kOwn + 1));
}

QpTable::QpTable(DurableState& state, std::uint64_t seed)
    : state_(state),
      slot_bits_(static_cast<std::uint32_t>(std::countr_zero(state.slots() - kOwn))),
      by_slot_(state.slots()),
      generations_(1u << slot_bits_),
      former_(static_cast<Former*>(std::calloc(by_slot_.size(), sizeof(Former)))) {
  if (former_ == nullptr) throw std::bad_alloc();
  const std::uint32_t first_own = 1u << slot_bits_;
  for (std::uint32_t slot = first_own; slot-- > 0;) free_.push_back(slot);
  for (std::uint32_t own = 0; own < kOwn; ++own) free_own_.push_back(first_own + own);
  if (seed != 0) scatter(seed);
  if (state.is_inherited()) find_left();
}

/// Numbers that the earlier engine has given come back as late as with that engine.
void QpTable::find_left() {
  left_.resize(generations_.size());
  for (std::uint32_t slot = 0; slot < left_.size(); ++slot) {
    const QpDurable& record = state_.queue_pair(slot);
    left_[slot] = record.in_use != 0;
    if (record.number != 0) generations_[slot] = record.number >> slot_bits_;
  }
}

bool QpTable::is_left(Qpn number) const {
  const std::uint32_t slot = slot_of(number);
  return !left_.empty() && left_[slot] && state_.queue_pair(slot).number == number.value;
}

void QpTable::take_over(QueuePair& qp) {
  left_[qp.slot] = false;
  qp.record.durable = &state_.queue_pair(qp.slot);
  qp.rq.work = &state_.receive(qp.slot);
}

void QpTable::drop_left() {
  for (std::uint32_t slot = 0; slot < left_.size(); ++slot) {
    if (!left_[slot]) continue;
    state_.queue_pair(slot).in_use = 0;
    if (by_slot_[slot] == nullptr) free_.push_back(slot);
  }
  left_.clear();
}

std::uint32_t QpTable::last_generation() const { return (1u << (kQpnBits - slot_bits_)) - 2; }

void QpTable::scatter(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::shuffle(free_.begin(), free_.end(), random);
  std::uniform_int_distribution<std::uint32_t> any(0, last_generation());
  for (std::uint32_t& generation : generations_) generation = any(random);
}

bool QpTable::add(QueuePair& qp) {
  // Takes the slot that was freed first, so that numbers are reused as late as possible. A slot
  // that add() of a given number has taken stays in the list until its turn.
  const auto is_in_use = [this](std::uint32_t slot) {
    return by_slot_[slot] != nullptr || (!left_.empty() && left_[slot]);
  };
  while (!free_.empty() && is_in_use(free_.front())) free_.pop_front();
  if (free_.empty()) return false;
  const std::uint32_t slot = free_.front();
  free_.pop_front();
  generations_[slot] = generations_[slot] < last_generation() ? generations_[slot] + 1 : 1;
  qp.qpn = Qpn(generations_[slot] << slot_bits_ | slot);
  enter(qp, slot);
  return true;
}

bool QpTable::add(QueuePair& qp, Qpn number) {
  const std::uint32_t slot = slot_of(number);
  const std::uint32_t generation = number.value >> slot_bits_;
  if (by_slot_[slot] != nullptr || generation == 0 || generation > last_generation()) return false;
  generations_[slot] = generation;
  qp.qpn = number;
  enter(qp, slot);
  return true;
}

bool QpTable::add_own(QueuePair& qp) {
  QueuePair*& place = well_known_[qp.qpn.value];
  if (place != nullptr || free_own_.empty()) return false;
  place = &qp;
  enter(qp, free_own_.back());
  free_own_.pop_back();
  return true;
}

void QpTable::enter(QueuePair& qp, std::uint32_t slot) {
  qp.slot = slot;
  if (slot < left_.size() && left_[slot]) {
    qp.record.durable = &unused_;
    qp.rq.work = &unused_work_;
  } else {
    qp.record.durable = &state_.queue_pair(slot);
    qp.rq.work = &state_.receive(slot);
    *qp.record.durable = {};
    qp.record.durable->number = qp.qpn.value;
    qp.record.durable->in_use = 1;
  }
  by_slot_[slot] = &qp;
  qp.session->queue_pairs.push_back(qp);
  ++qp.session->queue_pair_count;
}

void QpTable::remove(QueuePair& qp, Time now, bool with_session) {
  qp.session->queue_pairs.remove(qp);
  --qp.session->queue_pair_count;
  former_[qp.slot] = {.qpn = qp.qpn,
                      .session = qp.session->id,
                      .process = qp.session->process,
                      .tenant = qp.session->tenant->id,
                      .with_session = with_session,
                      .at = now};
  by_slot_[qp.slot] = nullptr;
  qp.record.durable->in_use = 0;
  if (qp.slot < generations_.size()) return free_.push_back(qp.slot);
  free_own_.push_back(qp.slot);
  well_known_[qp.qpn.value] = nullptr;
}

void QpTable::hand_over(QueuePair& qp, Session& heir) {
  qp.session->queue_pairs.remove(qp);
  --qp.session->queue_pair_count;
  qp.session = &heir;
  heir.queue_pairs.push_back(qp);
  ++heir.queue_pair_count;
}

QueuePair* QpTable::find(Qpn qpn) const {
  if (qpn.value < well_known_.size()) return well_known_[qpn.value];
  QueuePair* qp = by_slot_[slot_of(qpn)];
  return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
}

const QpTable::Former* QpTable::former(Qpn qpn) const {
  const Former& former = former_[slot_of(qpn)];
  return former.qpn == qpn && qpn != Qpn() ? &former : nullptr;
}

bool QpTable::had(const Session& session, Qpn qpn) const {
  const Former* const gone = former(qpn);
  return gone != nullptr && gone->session == session.id;
}

}  // namespace softhca::engine
