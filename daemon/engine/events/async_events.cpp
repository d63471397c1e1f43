// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/events/async_events.hpp"

#include <algorithm>

#include "daemon/engine/events/event_retry.hpp"
#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kTriesPerStep = 32;

}  // namespace

void AsyncEvents::raise(Session& session, std::uint64_t element, EventType type) {
  const auto number = static_cast<std::uint32_t>(type);
  auto& waiting = session.deferred.events;
  session.tenant->counters.completion.events.add();
  if (waiting.empty() && sink_.async_event(session.async_end, element, number)) return;
  session.tenant->counters.completion.events_deferred.add();
  if (waiting.size() == kMostDeferred) return;
  waiting.push_back({element, number});
  if (waiting.size() == 1) wait(session, 0);
}

void AsyncEvents::raise(const QueuePair& qp, EventType type) {
  raise(*qp.session, qp.user_handle, type);
  if (qp.holders == nullptr || qp.holders->all.empty()) return;
  QpHolders& holders = *qp.holders;
  const auto untold = holders.events.begin() + (holders.told != 0 ? 1 : 0);
  if (std::find(untold, holders.events.end(), type) != holders.events.end()) return;
  holders.events.push_back(type);
  if (holders.of_tenant.linked) return;
  Telling& tenant = tenants_[qp.tenant->id.value];
  tenant.targets.push_back(holders);
  if (!tenant.of_all.linked) telling_.push_back(tenant);
}

void AsyncEvents::add_holder(QueuePair& qp, const QpHolder& holder) {
  if (qp.holders == nullptr) {
    qp.holders = std::make_unique<QpHolders>(qp);
    qp.holders->events.reserve(kEventTypes + 1);
  }
  qp.holders->all.push_back(holder);
}

void AsyncEvents::remove_holder(QpHolders& holders, const QpHolder& holder) {
  const auto found = std::find(holders.all.begin(), holders.all.end(), holder);
  if (found != holders.all.end())
    remove_holder(holders, static_cast<std::size_t>(found - holders.all.begin()));
}

void AsyncEvents::remove_holder(QpHolders& holders, std::size_t index) {
  holders.all.erase(holders.all.begin() + static_cast<std::ptrdiff_t>(index));
  if (index < holders.told) --holders.told;
  settle(holders);
}

/// Drops the oldest event if all holders have been notified of it, and every event if there are no
/// holders.
void AsyncEvents::settle(QpHolders& holders) {
  if (!holders.of_tenant.linked || holders.told < holders.all.size()) return;
  holders.told = 0;
  if (holders.all.empty())
    holders.events.clear();
  else
    holders.events.erase(holders.events.begin());
  if (!holders.events.empty()) return;
  Telling& tenant = tenants_[holders.target.tenant->id.value];
  tenant.targets.remove(holders);
  if (tenant.targets.empty()) telling_.remove(tenant);
}

QpHolder AsyncEvents::take_heir(QpHolders& holders) {
  const QpHolder heir = holders.all.front();
  for (std::size_t i = holders.told != 0 ? 1 : 0; i < holders.events.size(); ++i)
    raise(*heir.session, heir.user_handle, holders.events[i]);
  remove_holder(holders, std::size_t{0});
  return heir;
}

std::size_t AsyncEvents::tell_holders() {
  std::size_t told = 0;
  for (std::size_t looks = kToldPerStep; looks != 0 && has_work(); --looks) {
    Telling& tenant = *telling_.front();
    QpHolders& holders = *tenant.targets.front();
    // Tenants take turns, and so do the targets of each.
    telling_.rotate();
    tenant.targets.rotate();
    if (!cpu_.may_take_in(holders.target.qos_class)) continue;
    tell_next(holders);
    ++told;
  }
  return told;
}

void AsyncEvents::tell_next(QpHolders& holders) {
  const QpHolder& holder = holders.all[holders.told];
  cpu_.charge(holders.target, kEventCost);
  raise(*holder.session, holder.user_handle, holders.events.front());
  ++holders.told;
  settle(holders);
}

void AsyncEvents::forget(Session& session, std::uint64_t element) {
  if (session.deferred.events.empty()) return;
  std::erase_if(session.deferred.events,
                [&](const DeferredEvents::Event& event) { return event.element == element; });
  if (session.deferred.events.empty()) stop_waiting(session);
}

void AsyncEvents::forget(Session& session) {
  if (session.deferred.events.empty()) return;
  session.deferred.events.clear();
  stop_waiting(session);
}

void AsyncEvents::wait(Session& session, std::size_t pause) {
  static_assert(EventRetry::kFirst * (1 << (kPauses - 1)) == EventRetry::kLongest);
  session.deferred.pause = static_cast<std::uint8_t>(pause);
  session.deferred.due = clock_.now + EventRetry::kFirst * (1 << pause);
  waiting_[pause].push_back(session);
  due_ = std::min(due_, session.deferred.due);
}

void AsyncEvents::stop_waiting(Session& session) {
  waiting_[session.deferred.pause].remove(session);
  const Session* first = first_due();
  due_ = first == nullptr ? kNever : first->deferred.due;
}

/// Returns the session that is to be retried first, or null if none waits.
Session* AsyncEvents::first_due() const {
  Session* first = nullptr;
  for (const Sessions& sessions : waiting_) {
    Session* const other = sessions.front();
    if (other != nullptr && (first == nullptr || other->deferred.due < first->deferred.due))
      first = other;
  }
  return first;
}

void AsyncEvents::retry() {
  for (std::size_t tries = kTriesPerStep; tries != 0 && due_ <= clock_.now;)
    tries -= try_again(*first_due(), tries);
}

/// Sends the session's events in order until its socket is full. Returns the number of tries, at
/// most `most`.
std::size_t AsyncEvents::try_again(Session& session, std::size_t most) {
  auto& waiting = session.deferred.events;
  std::size_t sent = 0, tries = 0;
  while (sent < waiting.size() && tries < most) {
    ++tries;
    cpu_.charge(session, kEventCost);
    if (!sink_.async_event(session.async_end, waiting[sent].element, waiting[sent].type)) break;
    ++sent;
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(sent));
  const std::size_t pause = session.deferred.pause;
  stop_waiting(session);
  if (!waiting.empty()) wait(session, sent != 0 ? 0 : std::min(pause + 1, kPauses - 1));
  return tries;
}

}  // namespace softhca::engine
