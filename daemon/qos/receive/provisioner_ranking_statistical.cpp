// SPDX-License-Identifier: Apache-2.0

// Changes over time: limits that follow use (D5), the ranking with aging (D4).
#include <algorithm>
#include <cmath>

#include "daemon/qos/receive/provisioner.hpp"

namespace softhca::receive {
namespace {

constexpr float kAverageWeight = 0.25f;  ///< of the latest interval
constexpr float kHeadroom = 1.25f;       ///< of a limit, above the average use
constexpr std::uint32_t kShown = 1024;   ///< accounts of a list ranked for the operator
constexpr float kForgotten = 0.5f;       ///< score below which an idle queue pair is forgotten

}  // namespace

/// Visits the account at the front of the list, which was visited or active longest ago. Each draw
/// visits one account of each list, so every account has its turn at a bounded cost per draw.
void Provisioner::visit(List& list, Time now) {
  const std::uint32_t i = list.front();
  if (i == kNoIndex) return;
  Account& account = accounts_[i];
  if (now - account.since < kInterval) return;
  list.rotate(accounts_.data());
  if (account.held == 0 && account.score_at(now) < kForgotten) {
    counters_.recouped.add(account.limit);
    return close(i);
  }
  if (!account.quarantined) adjust(account, now);
}

/// Raises the limit if it was reached, otherwise lowers it towards the average use, by half of the
/// distance each interval.
void Provisioner::adjust(Account& account, Time now) {
  account.average += kAverageWeight * (static_cast<float>(account.peak) - account.average);
  if (policy_.statistical && !account.own_limit && account.limit != 0) {
    const auto wanted = static_cast<std::uint32_t>(std::ceil(account.average * kHeadroom)) + 1;
    if (account.peak >= account.limit) {
      raise(account, std::max(1u, account.limit / 4));
    } else if (wanted < account.limit) {
      const std::uint32_t step = (account.limit - wanted + 1) / 2;
      counters_.recouped.add(step);
      change(account, [&] { account.limit -= step; });
    }
  }
  account.peak = account.held;
  account.since = now;
}

float Provisioner::Account::score_at(Time now) const {
  if (now <= scored) return score;
  const float age =
      std::chrono::duration<float>(now - scored) / std::chrono::duration<float>(kHalfLife);
  return score * std::exp2(-age);
}

// Limits the rate of rankings, since each visits all accounts: a queue may oscillate about its
// watermark.
std::optional<Alarm> Provisioner::alarm(Time now, bool acts) {
  if (now < next_alarm_) return std::nullopt;
  next_alarm_ = now + kAlarmPause;
  Alarm alarm;
  rank(holding_, now, alarm);
  rank(idle_, now, alarm);
  if (acts) choose_victim(now, alarm);
  return alarm;
}

void Provisioner::rank(const List& list, Time now, Alarm& alarm) const {
  for (std::uint32_t i = list.front(); i != kNoIndex; i = list.next(accounts_.data(), i))
    alarm.add(accounts_[i].as_offender(now));
}

Offender Provisioner::Account::as_offender(Time now) const {
  return {.qpn = qpn,
          .held = held,
          .limit = limit,
          .score = score_at(now),
          .soft = kind == LimitKind::kSoft,
          .quarantined = quarantined};
}

void Alarm::add(const Offender& offender) {
  std::size_t place = count;
  while (place > 0 && offenders[place - 1].score < offender.score) --place;
  if (place == kMost) return;
  count = std::min(count + 1, kMost);
  for (std::size_t at = count - 1; at > place; --at) offenders[at] = offenders[at - 1];
  offenders[place] = offender;
}

Alarm Provisioner::ranking(Time now) const {
  Alarm board;
  for (const List* list : {&holding_, &idle_}) {
    std::uint32_t left = kShown;
    for (std::uint32_t i = list->back(); i != kNoIndex && left != 0; --left) {
      board.add(accounts_[i].as_offender(now));
      i = list->prev(accounts_.data(), i);
    }
  }
  return board;
}

/// Chooses the queue pair with the highest score among the least important of those that hold
/// buffers. It is dropped only in favour of more important ones. It is quarantined also if it holds
/// more than all others together.
void Provisioner::choose_victim(Time now, Alarm& alarm) {
  Account* victim = nullptr;
  std::uint8_t highest = 0;
  for (std::uint32_t i = holding_.front(); i != kNoIndex; i = holding_.next(accounts_.data(), i)) {
    Account& account = accounts_[i];
    if (account.orphan) continue;
    highest = std::max(highest, account.importance);
    if (victim == nullptr || account.importance < victim->importance ||
        (account.importance == victim->importance && account.score_at(now) > victim->score_at(now)))
      victim = &account;
  }
  if (victim == nullptr) return;
  const bool less_important = victim->importance != highest;
  const bool holds_most = victim->held > figures_.held / 2 && victim->held < figures_.held;
  if (victim->on_exceed == OnExceed::kDropConnection && less_important) alarm.drop = victim->qpn;
  if (victim->on_exceed == OnExceed::kQuarantine && (less_important || holds_most) &&
      !victim->quarantined) {
    quarantine(*victim, now);
    alarm.quarantine = victim->qpn;
  }
}

}  // namespace softhca::receive
