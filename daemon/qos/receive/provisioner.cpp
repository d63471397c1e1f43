// SPDX-License-Identifier: Apache-2.0

// Draws, posts and limits. provisioner_ranking_statistical.cpp has the changes over time.
#include "daemon/qos/receive/provisioner.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace softhca::receive {

Provisioner::Provisioner(std::uint32_t buffers, const SrqPolicy& policy,
                         ProvisioningCounters& counters)
    : counters_(counters), holdings_(buffers), accounts_(buffers), buffers_(buffers) {
  for (std::uint32_t i = 0; i < buffers; ++i) free_.push_back(accounts_.data(), i);
  set_policy(policy);
}

std::size_t Provisioner::bytes_for(std::uint32_t buffers) {
  return sizeof(Provisioner) + buffers * sizeof(Account) + Holdings::bytes_for(buffers);
}

void Provisioner::set_policy(const SrqPolicy& policy) {
  policy_ = policy;
  budget_ = static_cast<std::uint64_t>(
      std::clamp(buffers_ * policy.overcommit, double{0}, double{0x7fffffff}));
  assigned_ = 0;
  for (const List* list : {&idle_, &holding_})
    for (std::uint32_t i = list->front(); i != kNoIndex; i = list->next(accounts_.data(), i)) {
      Account& account = accounts_[i];
      if (!account.own_limit)
        account.standard = std::min(policy_.limits[account.importance], buffers_);
      account.kind = policy_.kind;
      account.on_exceed = policy_.on_exceed;
      account.limit = account.standard;
      account.exceeding = false;
      end_quarantine(account);
      assigned_ += account.share();
    }
}

void Provisioner::set_limit(Member& member, std::uint32_t limit) {
  member.limit = limit;
  if (Account* account = find(member)) apply(*account, member);
}

void Provisioner::set_terms(Member& member, const Terms& terms) {
  member.terms = terms;
  if (Account* account = find(member)) apply(*account, member);
}

/// Applies the limit, terms and importance of the member to its account.
void Provisioner::apply(Account& account, const Member& member) {
  change(account, [&] {
    account.own_limit = member.limit != Member::kByPolicy;
    account.limit = account.standard = standard_of(member);
  });
  account.importance = member.importance;
  account.kind = member.terms.kind.value_or(policy_.kind);
  account.on_exceed = member.terms.on_exceed.value_or(policy_.on_exceed);
  account.exceeding = false;
  end_quarantine(account);
}

std::uint32_t Provisioner::standard_of(const Member& member) const {
  const std::uint32_t by_rule = member.terms.limit == Terms::kByPolicy
                                    ? policy_.limits[member.importance]
                                    : member.terms.limit;
  return std::min(member.limit == Member::kByPolicy ? by_rule : member.limit, buffers_);
}

// --- accounts

const Provisioner::Account* Provisioner::find(const Member& member) const {
  if (member.account >= accounts_.size()) return nullptr;
  const Account& account = accounts_[member.account];
  return account.generation == member.generation ? &account : nullptr;
}
Provisioner::Account* Provisioner::find(const Member& member) {
  return const_cast<Account*>(std::as_const(*this).find(member));
}

/// Returns null if every account holds buffers.
Provisioner::Account* Provisioner::open(Member& member, Qpn qpn, Time now) {
  if (free_.empty()) {
    if (idle_.empty()) return nullptr;
    close(idle_.front());
  }
  const std::uint32_t i = free_.pop_front(accounts_.data());
  Account& account = accounts_[i];
  if (++generation_ == 0) generation_ = 1;
  account = Account{.generation = generation_,
                    .qpn = qpn,
                    .standard = standard_of(member),
                    .scored = now,
                    .since = now,
                    .importance = member.importance,
                    .own_limit = member.limit != Member::kByPolicy,
                    .kind = member.terms.kind.value_or(policy_.kind),
                    .on_exceed = member.terms.on_exceed.value_or(policy_.on_exceed)};
  account.limit = account.standard;
  if (policy_.statistical && account.limit > 1)
    account.limit = std::clamp(unassigned(), 1u, account.limit);
  assigned_ += account.share();
  ++in_use_;
  idle_.push_back(accounts_.data(), i);
  member.account = i;
  member.generation = generation_;
  return &account;
}

/// Closes an account. REQUIRES: it holds nothing.
void Provisioner::close(std::uint32_t i) {
  Account& account = accounts_[i];
  assert(account.held == 0 && !account.drawing);
  end_quarantine(account);
  assigned_ -= account.share();
  account.generation = 0;
  idle_.remove(accounts_.data(), i);
  free_.push_front(accounts_.data(), i);
  --in_use_;
}

// --- draws

Decision Provisioner::decide(Member& member, Qpn qpn, Time now) {
  visit(holding_, now);
  visit(idle_, now);
  Account* account = find(member);
  if (account == nullptr) account = open(member, qpn, now);
  if (account != nullptr && account->importance != member.importance) apply(*account, member);
  if (account == nullptr) {
    counters_.hard_refused.add();
    ++figures_.refused;
    return Decision::kRefused;
  }
  if (account->quarantined) return decide_quarantined(*account, now);
  if (account->limit == 0 || account->held < account->limit) {
    account->exceeding = false;
    return Decision::kGranted;
  }
  const Decision decision = exceed(*account);
  if (decision == Decision::kQuarantined) quarantine(*account, now);
  return decision;
}

Decision Provisioner::exceed(Account& account) {
  // A limit that was lowered while the queue pair was idle comes back at once.
  if (policy_.statistical && account.limit < account.standard && account.held == account.limit &&
      raise(account, account.standard - account.limit))
    return Decision::kGranted;
  if (account.kind == LimitKind::kSoft) {
    if (std::exchange(account.exceeding, true)) return Decision::kGranted;
    counters_.soft_exceeded.add();
    return Decision::kGrantedOverSoftLimit;
  }
  switch (account.on_exceed) {
    case OnExceed::kRaise:
      // A raise helps only if the limit then exceeds what the account holds.
      return raise(account, account.held - account.limit + 1) && account.held < account.limit
                 ? Decision::kGranted
                 : refuse(account);
    case OnExceed::kReplenish:
      if (unassigned() == 0) return refuse(account);
      counters_.replenished.add();
      return Decision::kGranted;
    case OnExceed::kDropMessage:
      return refuse(account);
    case OnExceed::kQuarantine:
      counters_.hard_refused.add();
      ++figures_.refused;
      return Decision::kQuarantined;
    case OnExceed::kDropConnection:
      break;
  }
  return Decision::kDropConnection;
}

// --- quarantine

void Provisioner::quarantine(Account& account, Time now) {
  account.quarantined = true;
  account.since = now;
  ++figures_.quarantined;
  counters_.quarantines.add();
  counters_.quarantined.add();
}

void Provisioner::end_quarantine(Account& account) {
  if (!account.quarantined) return;
  account.quarantined = false;
  account.exceeding = false;
  --figures_.quarantined;
  counters_.quarantined.subtract();
}

/// Grants one buffer at a time. The quarantine ends when an interval has passed and the surplus is
/// given back: no more than half of the limit is held, so that the next message does not start a
/// new quarantine. Without a limit, half of an equal share counts.
Decision Provisioner::decide_quarantined(Account& account, Time now) {
  const std::uint32_t enough =
      account.standard != 0 ? account.standard / 2 : buffers_ / (2 * std::max(in_use_, 1u));
  if (now - account.since >= kInterval && account.held <= enough) {
    end_quarantine(account);
    return Decision::kGrantedAgain;
  }
  if (account.held == 0) return Decision::kGranted;
  counters_.hard_refused.add();
  ++figures_.refused;
  return Decision::kRefused;
}

Decision Provisioner::refuse(Account& account) {
  counters_.hard_refused.add();
  ++figures_.refused;
  return std::exchange(account.exceeding, true) ? Decision::kRefused : Decision::kRefusedFirst;
}

/// Raises a limit by at most `step`, within the unassigned budget. Returns false if there is none.
bool Provisioner::raise(Account& account, std::uint32_t step) {
  // Buffers held on credit are already in the sum.
  const std::uint32_t covered = account.share() - account.limit;
  step = std::min(step, covered + unassigned());
  if (step == 0) return false;
  change(account, [&] { account.limit += step; });
  counters_.raised.add(step);
  return true;
}

void Provisioner::drawn(Member& member, Time now) {
  Account& account = *find(member);
  const std::uint32_t i = member.account;
  (account.held == 0 ? idle_ : holding_).remove(accounts_.data(), i);
  holding_.push_back(accounts_.data(), i);
  change(account, [&] { ++account.held; });
  ++figures_.held;
  add_one(counters_.held, counters_.held_high_water);
  account.drawing = true;
  account.peak = std::max(account.peak, account.held);
  account.score = account.score_at(now) + 1;
  account.scored = now;
}

void Provisioner::completed(Member& member, std::uint64_t address) {
  Account* account = find(member);
  if (account == nullptr || !account->drawing) return;  // drawn before limits were set
  account->drawing = false;
  // Only a consumer that posted more than the queue has room for gets here. It loses the record of
  // its own oldest buffer; other consumers lose nothing.
  if (holdings_.full()) give_back(holdings_.give_back_oldest());
  holdings_.add(address, member.account);
}

void Provisioner::posted(std::uint64_t address) {
  if (holdings_.count() != 0) give_back(holdings_.give_back(address));
}

void Provisioner::give_back(std::uint32_t i) {
  Account& account = accounts_[i];
  change(account, [&] { --account.held; });
  --figures_.held;
  counters_.held.subtract();
  if (account.held != 0) return;
  holding_.remove(accounts_.data(), i);
  idle_.push_back(accounts_.data(), i);
  if (account.orphan) close(i);
}

void Provisioner::leave(Member& member) {
  Account* account = find(member);
  if (account != nullptr) {
    account->orphan = true;
    if (account->held == 0) close(member.account);
  }
  member = Member{};
}

std::uint32_t Provisioner::held_by(const Member& member) const {
  const Account* account = find(member);
  return account == nullptr ? 0 : account->held;
}

bool Provisioner::is_quarantined(const Member& member) const {
  const Account* account = find(member);
  return account != nullptr && account->quarantined;
}

std::uint32_t Provisioner::limit_of(const Member& member) const {
  const Account* account = find(member);
  return account == nullptr ? standard_of(member) : account->limit;
}

}  // namespace softhca::receive
