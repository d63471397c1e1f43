// Draws, posts, limits. provisioner_adjust.cpp has what happens with time.
#include "daemon/receive/provisioner.hpp"

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
  low_ = false;
  for (const List* list : {&idle_, &holding_})
    for (std::uint32_t i = list->front(); i != kNoIndex; i = list->next(accounts_.data(), i)) {
      Account& account = accounts_[i];
      if (!account.own_limit)
        account.standard = std::min(policy_.limits[account.importance], buffers_);
      account.limit = account.standard;
      account.exceeding = false;
      assigned_ += share_of(account);
    }
}

void Provisioner::set_limit(Member& member, std::uint32_t limit) {
  member.limit = limit;
  Account* account = find(member);
  if (account == nullptr) return;
  change(*account, [&] {
    account->own_limit = limit != Member::kByPolicy;
    account->limit = account->standard = standard_of(member);
  });
  account->exceeding = false;
}

std::uint32_t Provisioner::standard_of(const Member& member) const {
  const std::uint32_t limit =
      member.limit == Member::kByPolicy ? policy_.limits[member.importance] : member.limit;
  return std::min(limit, buffers_);
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

std::uint32_t Provisioner::index_of(const Account& account) const {
  return static_cast<std::uint32_t>(&account - accounts_.data());
}

/// Null: every account holds buffers.
Provisioner::Account* Provisioner::open(Member& member, Qpn qpn, Time now) {
  if (free_.empty()) {
    if (idle_.empty()) return nullptr;
    close(idle_.front());
  }
  const std::uint32_t i = free_.pop_front(accounts_.data());
  Account& account = accounts_[i];
  const std::uint32_t generation = account.generation + 1;
  account = Account{.generation = generation,
                    .qpn = qpn,
                    .standard = standard_of(member),
                    .scored = now,
                    .since = now,
                    .importance = member.importance,
                    .own_limit = member.limit != Member::kByPolicy};
  account.limit = account.standard;
  if (policy_.statistical && account.limit > 1)
    account.limit = std::clamp(unassigned(), 1u, account.limit);
  assigned_ += share_of(account);
  ++in_use_;
  idle_.push_back(accounts_.data(), i);
  member.account = i;
  member.generation = generation;
  return &account;
}

/// REQUIRES: the account holds nothing.
void Provisioner::close(std::uint32_t i) {
  Account& account = accounts_[i];
  assert(account.held == 0 && !account.drawing);
  assigned_ -= share_of(account);
  ++account.generation;
  idle_.remove(accounts_.data(), i);
  free_.push_front(accounts_.data(), i);
  --in_use_;
}

std::uint32_t Provisioner::share_of(const Account& account) {
  return account.limit == 0 ? 0 : std::max(account.limit, account.held);
}

/// Runs `f`, which changes limit or holdings of `account`, and keeps the sum right.
template <class F>
void Provisioner::change(Account& account, F&& f) {
  assigned_ -= share_of(account);
  f();
  assigned_ += share_of(account);
}

// --- draws

Decision Provisioner::decide(Member& member, Qpn qpn, Time now) {
  visit(holding_, now);
  visit(idle_, now);
  Account* account = find(member);
  if (account == nullptr) account = open(member, qpn, now);
  if (account != nullptr && account->importance != member.importance) {
    account->importance = member.importance;
    set_limit(member, member.limit);
  }
  if (account == nullptr) {
    counters_.hard_refused.add();
    return Decision::kRefused;
  }
  if (account->limit == 0 || account->held < account->limit) {
    account->exceeding = false;
    return Decision::kGranted;
  }
  return exceed(*account);
}

Decision Provisioner::exceed(Account& account) {
  // What was recouped while it was idle comes back at once.
  if (policy_.statistical && account.limit < account.standard && account.held == account.limit &&
      raise(account, account.standard - account.limit))
    return Decision::kGranted;
  if (policy_.kind == LimitKind::kSoft) {
    if (std::exchange(account.exceeding, true)) return Decision::kGranted;
    counters_.soft_exceeded.add();
    return Decision::kGrantedOverSoftLimit;
  }
  switch (policy_.on_exceed) {
    case OnExceed::kRaise:
      // Only what lies above what it holds helps it.
      return raise(account, account.held - account.limit + 1) && account.held < account.limit
                 ? Decision::kGranted
                 : refuse(account);
    case OnExceed::kReplenish:
      if (unassigned() == 0) return refuse(account);
      counters_.replenished.add();
      return Decision::kGranted;
    case OnExceed::kDropMessage:
      return refuse(account);
    case OnExceed::kDropConnection:
      break;
  }
  return Decision::kDropConnection;
}

Decision Provisioner::refuse(Account& account) {
  counters_.hard_refused.add();
  return std::exchange(account.exceeding, true) ? Decision::kRefused : Decision::kRefusedFirst;
}

/// Raises a limit by at most `step`, within what is assigned to nobody. False: there is nothing.
bool Provisioner::raise(Account& account, std::uint32_t step) {
  // Buffers held on credit are in the sum already.
  const std::uint32_t covered = share_of(account) - account.limit;
  step = std::min(step, covered + unassigned());
  if (step == 0) return false;
  change(account, [&] { account.limit += step; });
  counters_.raised.add(step);
  return true;
}

void Provisioner::lower(Account& account, std::uint32_t limit) {
  counters_.recouped.add(account.limit - limit);
  change(account, [&] { account.limit = limit; });
}

void Provisioner::drawn(Member& member, Time now) {
  Account& account = *find(member);
  const std::uint32_t i = index_of(account);
  (account.held == 0 ? idle_ : holding_).remove(accounts_.data(), i);
  holding_.push_back(accounts_.data(), i);
  change(account, [&] { ++account.held; });
  ++held_;
  counters_.held.add();
  counters_.held_high_water.raise_to(counters_.held.value());
  account.drawing = true;
  account.peak = std::max(account.peak, account.held);
  account.score = score_of(account, now) + 1;
  account.scored = now;
}

void Provisioner::completed(Member& member, std::uint64_t address) {
  Account* account = find(member);
  if (account == nullptr || !account->drawing) return;  // drawn before limits were set
  account->drawing = false;
  // Only a consumer that posted more than the queue has room for gets there: it loses track of its
  // oldest, and nobody else does.
  if (holdings_.full()) give_back(holdings_.give_back_oldest());
  holdings_.add(address, member.account);
}

void Provisioner::posted(std::uint64_t address) {
  if (holdings_.count() != 0) give_back(holdings_.give_back(address));
}

void Provisioner::give_back(std::uint32_t i) {
  Account& account = accounts_[i];
  change(account, [&] { --account.held; });
  --held_;
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

std::uint32_t Provisioner::limit_of(const Member& member) const {
  const Account* account = find(member);
  return account == nullptr ? standard_of(member) : account->limit;
}

}  // namespace softhca::receive
