// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/diagnostics/qp_history.hpp"

#include <array>
#include <cassert>
#include <new>

#include "daemon/roce/wire/headers.hpp"

namespace softhca::engine {
namespace {

// Equal events within this time are merged into one.
constexpr Duration kTogether = std::chrono::seconds(10);

struct EventOf {
  QpEventKind kind = QpEventKind::kNone;
  std::uint32_t detail = 0;
  bool has_detail = false;  ///< false: the caller gives the detail
};

using Table = std::array<EventOf, static_cast<std::size_t>(transport::Count::kCount)>;

constexpr Table make_table() {
  using transport::Count;
  Table table{};
  const auto set = [&](Count what, QpEventKind kind) {
    table[static_cast<std::size_t>(what)] = {kind, 0, false};
  };
  const auto set_nak = [&](Count what, QpEventKind kind, std::uint8_t syndrome) {
    table[static_cast<std::size_t>(what)] = {kind, syndrome, true};
  };
  set(Count::kAckTimeouts, QpEventKind::kTimeout);
  set(Count::kEarlyRetries, QpEventKind::kEarlyRetry);
  set(Count::kProbes, QpEventKind::kProbe);
  set(Count::kImpliedNak, QpEventKind::kResponseMissed);
  set(Count::kSequenceNakReceived, QpEventKind::kSequenceNakReceived);
  set(Count::kRnrNakReceived, QpEventKind::kRnrNakReceived);
  set(Count::kSequenceNakSent, QpEventKind::kSequenceNakSent);
  set(Count::kRnrNakSent, QpEventKind::kRnrNakSent);
  set(Count::kRateNakSent, QpEventKind::kOverRate);
  set(Count::kRateDropped, QpEventKind::kOverRate);
  set(Count::kDuplicateRequests, QpEventKind::kDuplicate);
  set(Count::kOutOfSequence, QpEventKind::kOutOfSequence);
  set(Count::kReceiveDropped, QpEventKind::kReceiveMissing);
  set_nak(Count::kInvalidNakReceived, QpEventKind::kNakReceived, wire::kSyndromeInvalidRequest);
  set_nak(Count::kAccessNakReceived, QpEventKind::kNakReceived, wire::kSyndromeRemoteAccess);
  set_nak(Count::kOperationNakReceived, QpEventKind::kNakReceived, wire::kSyndromeRemoteOperation);
  set_nak(Count::kInvalidNakSent, QpEventKind::kNakSent, wire::kSyndromeInvalidRequest);
  set_nak(Count::kAccessNakSent, QpEventKind::kNakSent, wire::kSyndromeRemoteAccess);
  set_nak(Count::kOperationNakSent, QpEventKind::kNakSent, wire::kSyndromeRemoteOperation);
  for (const Count what : {Count::kBadOpcode, Count::kBadLength, Count::kBadQkey})
    table[static_cast<std::size_t>(what)] = {QpEventKind::kBadRequest,
                                             static_cast<std::uint32_t>(what), true};
  return table;
}

/// The event of each counter. Success has no event. Packets that arrive after the end of a queue
/// pair, or that belong to no queue pair, have none either.
constexpr Table kEvents = make_table();

constexpr std::uint64_t bits_of(const Table& table) {
  static_assert(std::tuple_size_v<Table> <= 64);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].kind != QpEventKind::kNone) bits |= std::uint64_t{1} << i;
  return bits;
}

/// True if events of the kind are merged although their details differ.
constexpr bool is_measure(QpEventKind kind) {
  switch (kind) {
    case QpEventKind::kTimeout:
    case QpEventKind::kRnrNakReceived:
    case QpEventKind::kCongestion:
    case QpEventKind::kAccessRefused:
      return true;
    default:
      return false;
  }
}

/// Merges an occurrence into `event` if both are the same. False: they differ, or `event` is too
/// old.
bool merge(QpEvent& event, QpEventKind kind, const QpEventAbout& about, Time now) {
  if (event.kind() != kind || now - event.last() > kTogether) return false;
  if (event.detail != about.detail && !is_measure(kind)) return false;
  event.lasted_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now - event.first).count());
  event.count += about.count;
  event.detail = about.detail;
  if (about.psn) event.psn = about.psn->value();
  event.has_psn |= about.psn.has_value() ? 1 : 0;
  return true;
}

}  // namespace

constinit const std::uint64_t QpHistory::kHaveEvents = bits_of(kEvents);

QpHistory::QpHistory(const StepClock& clock, std::uint32_t queue_pairs)
    : clock_(clock),
      places_(std::make_unique_for_overwrite<std::byte[]>(queue_pairs * sizeof(Place))),
      size_(queue_pairs) {
  static_assert(alignof(Place) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}

void QpHistory::add(QueuePair& qp, QpEventKind kind, const QpEventAbout& about) {
  Place& to = place_of(qp);
  const Time now = clock_.now;
  // Newest first. Events are not merged across a change of state.
  const std::uint32_t count = to.past.count;
  for (std::uint32_t back = 1; back <= count && kind != QpEventKind::kState; ++back) {
    QpEvent& event = to.past.events[(to.next + QpPast::kKept - back) % QpPast::kKept];
    if (event.kind() == QpEventKind::kState) break;
    if (merge(event, kind, about, now)) return;
  }
  QpEvent event{.first = now, .count = about.count, .detail = about.detail};
  event.kind_bits = static_cast<std::uint8_t>(kind);
  event.has_psn = about.psn.has_value() ? 1 : 0;
  event.psn = about.psn.value_or(Psn()).value();
  push(to, event);
}

void QpHistory::count(QueuePair& qp, transport::Count what, std::uint32_t n, std::optional<Psn> psn,
                      std::uint32_t detail) {
  qp.count(what, n);
  if (!has_event(what)) return;
  const EventOf& event = kEvents[static_cast<std::size_t>(what)];
  add(qp, event.kind, {event.has_detail ? event.detail : detail, psn, n});
}

void QpHistory::enter(QueuePair& qp, QpState state) {
  if (qp.state == state) return;
  add_if_any(qp, QpEventKind::kState, {.detail = state_detail(qp.state, state)});
  qp.state = state;
  qp.record.state_since = clock_.now;
}

void QpHistory::refuse(QueuePair& qp, const Refusal& refusal) {
  Refusal& to = place_of(qp).refusal;
  to = refusal;
  to.at = clock_.now;
}

const Refusal& QpHistory::refusal(const QueuePair& qp) const {
  static constexpr Refusal kNone;
  return qp.record.place == kNoIndex ? kNone : place(qp.record.place).refusal;
}

void QpHistory::forget_refusal(const QueuePair& qp) {
  if (qp.record.place != kNoIndex) place(qp.record.place).refusal = {};
}

void QpHistory::forget(QueuePair& qp) {
  if (qp.record.place == kNoIndex) return;
  place(qp.record.place).next = free_;
  free_ = qp.record.place;
  qp.record.place = kNoIndex;
  --in_use_;
}

QpPast QpHistory::past(const QueuePair& qp) const {
  QpPast out;
  if (qp.record.place == kNoIndex) return out;
  const Place& from = place(qp.record.place);
  out.count = from.past.count;
  const std::uint32_t oldest = from.next + QpPast::kKept - out.count;
  for (std::uint32_t i = 0; i < out.count; ++i)
    out.events[i] = from.past.events[(oldest + i) % QpPast::kKept];
  return out;
}

/// Returns the place of the queue pair. The first event of a new place says when the queue pair
/// entered its state.
QpHistory::Place& QpHistory::place_of(QueuePair& qp) {
  if (qp.record.place != kNoIndex) return place(qp.record.place);
  assert(free_ != kNoIndex || fresh_ < size_);
  if (free_ != kNoIndex) {
    qp.record.place = free_;
    free_ = place(free_).next;
  } else {
    qp.record.place = fresh_++;
  }
  ++in_use_;
  Place& taken = *new (&place(qp.record.place)) Place{};
  QpEvent event{
      .first = qp.record.state_since, .count = 1, .detail = state_detail(qp.state, qp.state)};
  event.kind_bits = static_cast<std::uint8_t>(QpEventKind::kState);
  push(taken, event);
  return taken;
}

void QpHistory::push(Place& to, const QpEvent& event) {
  to.past.events[to.next] = event;
  to.next = (to.next + 1) % QpPast::kKept;
  if (to.past.count < QpPast::kKept) ++to.past.count;
}

}  // namespace softhca::engine
