// SPDX-License-Identifier: Apache-2.0

// Limits how many buffers of one shared receive queue each of its queue pairs may hold (mechanism
// D).
//
// A queue pair holds a buffer from the draw for a message until the consumer's post that gives it
// back (`holdings_` decides which post that is). Only a queue pair that holds buffers, or did so
// recently, has an Account. There are as many accounts as buffers, so memory grows with the queue
// and not with the number of queue pairs on it (D7). The others have only a Member.
//
// Limits are assigned out of a budget of buffers * overcommit. An account with a limit counts as
// max(limit, buffers held), so that buffers on credit count too; an account without a limit counts
// as 0. The sum may exceed the budget only by the limits of the static table or of a live
// set_limit(), and by the one buffer that every queue pair may hold. Raising a limit never exceeds
// the budget.
//
// D3 needs no code here: the responder drops a packet beyond the next expected one before it draws.
//
// Pure: no clock, no allocation after construction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/receive/holdings.hpp"
#include "daemon/qos/receive/policy.hpp"

namespace softhca::receive {

/// Settings from the first rule that matches a queue pair. The policy supplies what the rule omits.
struct Terms {
  static constexpr std::uint32_t kByPolicy = 0xffffffff;
  static constexpr std::uint8_t kByPath = 0xff;
  std::uint32_t limit = kByPolicy;
  std::uint8_t importance = kByPath;
  std::optional<LimitKind> kind;
  std::optional<OnExceed> on_exceed;
  std::uint8_t rule = 0;  ///< number of the rule, from 1; 0: none matches
};

/// State that a queue pair on a shared receive queue keeps. Zero it when the queue pair joins
/// another queue.
struct Member {
  static constexpr std::uint32_t kByPolicy = Terms::kByPolicy;
  static constexpr std::uint8_t kByPath = Terms::kByPath;
  std::uint32_t account = kNoIndex;
  std::uint32_t generation = 0;
  std::uint32_t limit = kByPolicy;  ///< own limit or that of its terms; written by set_limit()
  std::uint32_t rules = 0;          ///< version of the rules behind `terms`; written by the engine
  Terms terms;                      ///< written by set_terms()
  std::uint8_t importance = 0;      ///< below kImportances; written by the engine
  std::uint8_t own_importance = kByPath;  ///< set by the operator, or by its terms or path

  /// True if the provisioner may have state of the queue pair.
  bool is_known() const { return account != kNoIndex || limit != kByPolicy; }
};

enum class Decision : std::uint8_t {
  kGranted,
  kGrantedOverSoftLimit,  ///< first draw over the limit since it was within it
  kGrantedAgain,          ///< its quarantine has ended
  kRefused,
  kRefusedFirst,    ///< first refusal since it was within its limit
  kQuarantined,     ///< no buffer; its quarantine begins
  kDropConnection,  ///< no buffer; its queue pair must go to the error state
};
constexpr bool is_granted(Decision d) {
  return d == Decision::kGranted || d == Decision::kGrantedOverSoftLimit ||
         d == Decision::kGrantedAgain;
}

struct Offender {
  Qpn qpn;
  std::uint32_t held = 0;
  std::uint32_t limit = 0;  ///< current limit; 0: none
  float score = 0;          ///< number of draws, each decaying with the policy's half-life
  bool soft = false;        ///< exceeding the limit is only reported
  bool quarantined = false;
};

/// The ranking by recent draws (D4).
struct Alarm {
  static constexpr std::size_t kMost = 4;
  std::array<Offender, kMost> offenders;  ///< highest score first
  std::size_t count = 0;
  std::optional<Qpn> drop;        ///< connection to drop in favour of more important ones (D6)
  std::optional<Qpn> quarantine;  ///< queue pair that was quarantined

  /// Inserts the queue pair by its score, if it is among the highest kMost.
  void add(const Offender& offender);
};

class Provisioner {
 public:
  /// Allocates. `buffers`: entries of the queue.
  Provisioner(std::uint32_t buffers, const SrqPolicy& policy, ProvisioningCounters& counters);

  const SrqPolicy& policy() const { return policy_; }
  /// Replaces the policy, at any time. The buffers held stay; the limits start again from the
  /// table.
  void set_policy(const SrqPolicy& policy);
  /// Sets a limit for one queue pair and ends its quarantine. 0: none; Member::kByPolicy: the limit
  /// of its terms.
  void set_limit(Member& member, std::uint32_t limit);
  /// Sets the terms that a rule gives one queue pair.
  void set_terms(Member& member, const Terms& terms);
  /// Calls f(queue pair number) for each queue pair that has an account.
  template <class F>
  void for_each_account(F&& f) const {
    for (const List* list : {&idle_, &holding_})
      for (std::uint32_t i = list->front(); i != kNoIndex; i = list->next(accounts_.data(), i))
        if (!accounts_[i].orphan) f(accounts_[i].qpn);
  }

  /// Decides whether a message of this queue pair may draw a buffer. After a granted draw, call
  /// drawn().
  Decision decide(Member& member, Qpn qpn, Time now);
  /// Records the draw. REQUIRES: the previous call was decide() of this member, and granted.
  void drawn(Member& member, Time now);
  /// Records that the completion of the last buffer drawn was written. `address` is the buffer's.
  void completed(Member& member, std::uint64_t address);
  /// Records that the consumer posted a buffer, which gives back one.
  void posted(std::uint64_t address);
  /// Removes a queue pair that is gone. Its buffers count as held until the consumer posts them.
  void leave(Member& member);

  /// Removes the queue's buffers and quarantines from the counters. With `successor`, from which
  /// nothing has been drawn yet, its members go on there.
  void retire(Provisioner* successor = nullptr) {
    if (successor != nullptr) successor->generation_ = generation_;
    counters_.held.subtract(figures_.held);
    counters_.quarantined.subtract(figures_.quarantined);
  }

  /// Ranks the queue pairs of a queue that has run low. If `acts`, chooses the one to drop or to
  /// quarantine. Returns nothing within kAlarmPause of the previous ranking.
  std::optional<Alarm> alarm(Time now, bool acts);

  /// Returns the ranking of an alarm for the queue pairs that drew lately. Takes bounded time,
  /// however many there are.
  Alarm ranking(Time now) const;

  std::uint32_t held_by(const Member& member) const;
  std::uint32_t limit_of(const Member& member) const;  ///< current limit; 0: none
  bool is_quarantined(const Member& member) const;
  /// Returns the part of the budget that is not assigned to any account.
  std::uint32_t unassigned() const {
    return budget_ > assigned_ ? static_cast<std::uint32_t>(budget_ - assigned_) : 0;
  }
  std::uint32_t accounts_in_use() const { return in_use_; }
  struct Figures {
    std::uint32_t held = 0;         ///< buffers, by all accounts
    std::uint32_t quarantined = 0;  ///< queue pairs
    std::uint64_t refused = 0;      ///< draws, by limits and quarantine
  };
  const Figures& figures() const { return figures_; }
  /// Returns how many buffers are completed and not posted again. If 0, a post gives nothing back.
  std::uint32_t unreplenished() const { return holdings_.count(); }
  /// Returns the size of this object in bytes.
  static std::size_t bytes_for(std::uint32_t buffers);

 private:
  struct Account {
    IndexLink link;                ///< in free_, idle_ or holding_
    std::uint32_t generation = 0;  ///< 0: of no member
    Qpn qpn;
    std::uint32_t held = 0;
    std::uint32_t limit = 0;     ///< current limit
    std::uint32_t standard = 0;  ///< by the table, or its own
    std::uint32_t peak = 0;      ///< most held since `since`
    float average = 0;           ///< of the peaks
    float score = 0;             ///< at `scored`
    Time scored{};
    Time since{};
    std::uint8_t importance = 0;
    bool drawing = false;    ///< a message under way has a buffer
    bool exceeding = false;  ///< over its limit, and that was reported
    bool orphan = false;     ///< its queue pair is gone
    bool own_limit = false;  ///< not the limit of its terms
    LimitKind kind = LimitKind::kHard;
    OnExceed on_exceed = OnExceed::kDropMessage;
    bool quarantined = false;

    /// Returns what counts of the budget.
    std::uint32_t share() const { return limit == 0 ? 0 : std::max(limit, held); }
    float score_at(Time now) const;
    Offender as_offender(Time now) const;
  };
  static_assert(sizeof(Account) == 64, "one line of the cache");
  using List = IndexList<Account, &Account::link>;

  // provisioner.cpp
  Account* find(const Member& member);
  const Account* find(const Member& member) const;
  Account* open(Member& member, Qpn qpn, Time now);
  void close(std::uint32_t i);
  std::uint32_t standard_of(const Member& member) const;
  void apply(Account& account, const Member& member);
  Decision exceed(Account& account);
  Decision refuse(Account& account);
  Decision decide_quarantined(Account& account, Time now);
  void quarantine(Account& account, Time now);
  void end_quarantine(Account& account);
  bool raise(Account& account, std::uint32_t step);
  void give_back(std::uint32_t i);
  /// Runs `f`, which changes the limit or the buffers held of `account`, and updates the sum.
  template <class F>
  void change(Account& account, F&& f) {
    assigned_ -= account.share();
    f();
    assigned_ += account.share();
  }

  // provisioner_ranking_statistical.cpp
  void visit(List& list, Time now);
  void adjust(Account& account, Time now);
  void rank(const List& list, Time now, Alarm& alarm) const;
  void choose_victim(Time now, Alarm& alarm);

  SrqPolicy policy_;
  ProvisioningCounters& counters_;
  Holdings holdings_;
  std::vector<Account> accounts_;
  List free_;
  List idle_;     ///< hold no buffers; least recently active first
  List holding_;  ///< hold buffers
  std::uint32_t in_use_ = 0;
  std::uint32_t generation_ = 0;  ///< of the account opened last
  std::uint32_t buffers_;
  std::uint64_t budget_ = 0;
  std::uint64_t assigned_ = 0;
  Figures figures_;
  Time next_alarm_{};
};

}  // namespace softhca::receive
