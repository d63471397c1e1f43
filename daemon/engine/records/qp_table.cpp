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

QpTable::QpTable(std::uint32_t queue_pairs, std::uint64_t seed)
    : slot_bits_(static_cast<std::uint32_t>(
          std::countr_zero(std::bit_ceil(std::max(queue_pairs, kOwn + 1))))),
      by_slot_((1u << slot_bits_) + kOwn),
      receives_(std::make_unique_for_overwrite<shm::ReceiveWork[]>(by_slot_.size())),
      generations_(1u << slot_bits_),
      former_(static_cast<Former*>(std::calloc(by_slot_.size(), sizeof(Former)))) {
  if (former_ == nullptr) throw std::bad_alloc();
  const std::uint32_t first_own = 1u << slot_bits_;
  for (std::uint32_t slot = first_own; slot-- > 0;) free_.push_back(slot);
  for (std::uint32_t own = 0; own < kOwn; ++own) free_own_.push_back(first_own + own);
  if (seed != 0) scatter(seed);
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
  while (!free_.empty() && by_slot_[free_.front()] != nullptr) free_.pop_front();
  if (free_.empty()) return false;
  const std::uint32_t slot = free_.front();
  free_.pop_front();
  generations_[slot] = generations_[slot] < last_generation() ? generations_[slot] + 1 : 1;
  qp.qpn = Qpn(generations_[slot] << slot_bits_ | slot);
  enter(qp, slot);
  return true;
}

bool QpTable::add(QueuePair& qp, Qpn number) {
  const std::uint32_t slot = number.value & ((1u << slot_bits_) - 1);
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
  qp.rq.work = &receives_[slot];
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
  QueuePair* qp = by_slot_[qpn.value & ((1u << slot_bits_) - 1)];
  return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
}

const QpTable::Former* QpTable::former(Qpn qpn) const {
  const Former& former = former_[qpn.value & ((1u << slot_bits_) - 1)];
  return former.qpn == qpn && qpn != Qpn() ? &former : nullptr;
}

bool QpTable::had(const Session& session, Qpn qpn) const {
  const Former* const gone = former(qpn);
  return gone != nullptr && gone->session == session.id;
}

}  // namespace softhca::engine
