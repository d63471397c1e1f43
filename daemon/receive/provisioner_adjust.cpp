// What happens with time: limits that follow use (D5), the score board with aging (D4).
#include <algorithm>
#include <cmath>

#include "daemon/receive/provisioner.hpp"

namespace softhca::receive {
namespace {

constexpr float kAverageWeight = 0.25f;  ///< of the latest interval
constexpr float kHeadroom = 1.25f;       ///< of a limit above the average use
constexpr std::uint32_t kShown = 1024;   ///< accounts of a list ranked for the operator
constexpr float kForgotten = 0.5f;       ///< score below which an idle queue pair is forgotten

}  // namespace

/// Looks at one account, the one looked at or active longest ago. Each draw looks at one of each
/// list, so that all have their turn and none costs more than that.
void Provisioner::visit(List& list, Time now) {
  const std::uint32_t i = list.front();
  if (i == kNoIndex) return;
  Account& account = accounts_[i];
  if (now - account.since < kInterval) return;
  list.rotate(accounts_.data());
  if (account.held == 0 && score_of(account, now) < kForgotten) {
    counters_.recouped.add(account.limit);
    return close(i);
  }
  adjust(account, now);
}

/// Raises the limit while it is reached, and otherwise lowers it towards the average use, by half
/// of the way each interval.
void Provisioner::adjust(Account& account, Time now) {
  account.average += kAverageWeight * (static_cast<float>(account.peak) - account.average);
  if (policy_.statistical && !account.own_limit && account.limit != 0) {
    const auto wanted = static_cast<std::uint32_t>(std::ceil(account.average * kHeadroom)) + 1;
    if (account.peak >= account.limit) {
      raise(account, std::max(1u, account.limit / 4));
    } else if (wanted < account.limit) {
      lower(account, account.limit - (account.limit - wanted + 1) / 2);
    }
  }
  account.peak = account.held;
  account.since = now;
}

float Provisioner::score_of(const Account& account, Time now) const {
  if (now <= account.scored) return account.score;
  const float age =
      std::chrono::duration<float>(now - account.scored) / std::chrono::duration<float>(kHalfLife);
  return account.score * std::exp2(-age);
}

std::optional<Alarm> Provisioner::watch(std::uint32_t available, Time now) {
  if (policy_.watermark == 0) return std::nullopt;
  if (available > policy_.watermark) low_ = false;
  if (available > policy_.watermark || low_) return std::nullopt;
  low_ = true;
  counters_.watermarks.add();
  // A ranking looks at all accounts, so a queue that swings about its watermark is ranked only now
  // and then.
  if (now < next_alarm_) return std::nullopt;
  next_alarm_ = now + kAlarmPause;
  Alarm alarm;
  rank(holding_, now, alarm);
  rank(idle_, now, alarm);
  if (policy_.on_exceed == OnExceed::kDropConnection) alarm.drop = choose_victim(now);
  return alarm;
}

void Provisioner::rank(const List& list, Time now, Alarm& alarm) const {
  for (std::uint32_t i = list.front(); i != kNoIndex; i = list.next(accounts_.data(), i))
    rank(accounts_[i], now, alarm);
}

void Provisioner::rank(const Account& account, Time now, Alarm& alarm) const {
  const Offender offender{account.qpn, account.held, account.limit, score_of(account, now)};
  std::size_t place = alarm.count;
  while (place > 0 && alarm.offenders[place - 1].score < offender.score) --place;
  if (place == Alarm::kMost) return;
  alarm.count = std::min(alarm.count + 1, Alarm::kMost);
  for (std::size_t at = alarm.count - 1; at > place; --at)
    alarm.offenders[at] = alarm.offenders[at - 1];
  alarm.offenders[place] = offender;
}

Alarm Provisioner::score_board(Time now) const {
  Alarm board;
  for (const List* list : {&holding_, &idle_}) {
    std::uint32_t left = kShown;
    for (std::uint32_t i = list->back(); i != kNoIndex && left != 0; --left) {
      rank(accounts_[i], now, board);
      i = list->prev(accounts_.data(), i);
    }
  }
  return board;
}

/// The queue pair with the highest score among the least important of those that hold buffers; none
/// when all are equally important.
std::optional<Qpn> Provisioner::choose_victim(Time now) const {
  const Account* victim = nullptr;
  std::uint8_t highest = 0;
  for (std::uint32_t i = holding_.front(); i != kNoIndex; i = holding_.next(accounts_.data(), i)) {
    const Account& account = accounts_[i];
    if (account.orphan) continue;
    highest = std::max(highest, account.importance);
    if (victim == nullptr || account.importance < victim->importance ||
        (account.importance == victim->importance &&
         score_of(account, now) > score_of(*victim, now)))
      victim = &account;
  }
  if (victim == nullptr || victim->importance == highest) return std::nullopt;
  return victim->qpn;
}

}  // namespace softhca::receive
