// How many buffers of one shared receive queue each of its queue pairs may hold (mechanism D).
//
// A buffer is held from the draw for a message until the consumer's post that gives it back
// (holdings.hpp says which post that is). Only a queue pair that holds buffers, or did so a moment
// ago, has an Account; there are as many accounts as buffers, so memory grows with the queue
// and not with the number of queue pairs on it (D7). The others keep a Member, 16 bytes.
//
// Limits are assigned out of a budget of buffers * overcommit. A limit counts with max(limit,
// buffers held), so that what is given on credit counts, too. An account that has no limit counts
// with nothing. The sum may pass the budget only by what the static table or a live set_limit()
// says, and by the one buffer that every queue pair may hold; raising never does so.
//
// D3 needs nothing here: what is ahead of the next expected packet is dropped before it draws.
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
#include "daemon/receive/holdings.hpp"
#include "daemon/receive/policy.hpp"

namespace softhca::receive {

/// What the first rule that fits says of a queue pair; what it does not say is as in the policy.
struct Terms {
  static constexpr std::uint32_t kByPolicy = 0xffffffff;
  static constexpr std::uint8_t kByPath = 0xff;
  std::uint32_t limit = kByPolicy;
  std::uint8_t importance = kByPath;
  std::optional<LimitKind> kind;
  std::optional<OnExceed> on_exceed;
  std::uint8_t rule = 0;  ///< its number from 1; 0: none fits
};

/// What a queue pair on a shared receive queue keeps itself. To be zeroed when it joins another.
struct Member {
  static constexpr std::uint32_t kByPolicy = Terms::kByPolicy;
  static constexpr std::uint8_t kByPath = Terms::kByPath;
  std::uint32_t account = kNoIndex;
  std::uint32_t generation = 0;
  std::uint32_t limit = kByPolicy;        ///< its own, or that of its terms; written by set_limit()
  std::uint32_t rules = 0;                ///< what `terms` was made of; written by the engine
  Terms terms;                            ///< written by set_terms()
  std::uint8_t importance = 0;            ///< below kImportances; written by the engine
  std::uint8_t own_importance = kByPath;  ///< as the operator says, or that of its terms or path

  /// True: there may be something to remember of the queue pair.
  bool is_known() const { return account != kNoIndex || limit != kByPolicy; }
};

enum class Decision : std::uint8_t {
  kGranted,
  kGrantedOverSoftLimit,  ///< the first time since it was within its limit
  kGrantedAgain,          ///< its quarantine is over
  kRefused,
  kRefusedFirst,    ///< the first time since it was within its limit
  kQuarantined,     ///< no buffer, and its quarantine begins
  kDropConnection,  ///< no buffer, and its queue pair has to go to the error state
};
constexpr bool is_granted(Decision d) {
  return d == Decision::kGranted || d == Decision::kGrantedOverSoftLimit ||
         d == Decision::kGrantedAgain;
}

struct Offender {
  Qpn qpn;
  std::uint32_t held = 0;
  std::uint32_t limit = 0;  ///< now; 0: none
  float score = 0;          ///< draws, each fading with the policy's half-life
  bool soft = false;        ///< exceeding the limit is only reported
  bool quarantined = false;
};

/// The score board (D4).
struct Alarm {
  static constexpr std::size_t kMost = 4;
  std::array<Offender, kMost> offenders;  ///< highest score first
  std::size_t count = 0;
  std::optional<Qpn> drop;        ///< the connection to give up for more important ones (D6)
  std::optional<Qpn> quarantine;  ///< the one whose quarantine has begun

  /// Puts the queue pair in its place, if it has one.
  void add(const Offender& offender);
};

class Provisioner {
 public:
  /// Allocates. `buffers`: entries of the queue.
  Provisioner(std::uint32_t buffers, const SrqPolicy& policy, ProvisioningCounters& counters);

  const SrqPolicy& policy() const { return policy_; }
  /// May be called at any time. Holdings stay; limits begin anew from the table.
  void set_policy(const SrqPolicy& policy);
  /// Sets a limit of its own for one queue pair; 0: none; Member::kByPolicy: that of its terms.
  /// Ends its quarantine.
  void set_limit(Member& member, std::uint32_t limit);
  /// Sets what holds for one queue pair by rule.
  void set_terms(Member& member, const Terms& terms);
  /// f(number) for each queue pair that has an account.
  template <class F>
  void for_each_account(F&& f) const {
    for (const List* list : {&idle_, &holding_})
      for (std::uint32_t i = list->front(); i != kNoIndex; i = list->next(accounts_.data(), i))
        if (!accounts_[i].orphan) f(accounts_[i].qpn);
  }

  /// May a message of this queue pair draw a buffer? A granted draw is followed by drawn().
  Decision decide(Member& member, Qpn qpn, Time now);
  /// REQUIRES: the call before was decide() of this member, and granted.
  void drawn(Member& member, Time now);
  /// The completion of the buffer that was drawn last has been written. `address`: where it lies.
  void completed(Member& member, std::uint64_t address);
  /// The consumer posted a buffer.
  void posted(std::uint64_t address);
  /// The queue pair is gone. What it holds stays held until the consumer posts it.
  void leave(Member& member);

  /// The queue is gone, with all that is held of it; or `successor`, of which nothing has been
  /// drawn, goes on with its members.
  void retire(Provisioner* successor = nullptr) {
    if (successor != nullptr) successor->generation_ = generation_;
    counters_.held.subtract(figures_.held);
    counters_.quarantined.subtract(figures_.quarantined);
  }

  /// The queue has run low: ranks the queue pairs and, if `acts`, chooses the one that has to go or
  /// to wait. None: it did so a moment ago.
  std::optional<Alarm> alarm(Time now, bool acts);

  /// The score board as an alarm has it, of the queue pairs that drew lately. Takes bounded time,
  /// however many there are.
  Alarm score_board(Time now) const;

  std::uint32_t held_by(const Member& member) const;
  std::uint32_t limit_of(const Member& member) const;  ///< now; 0: none
  bool is_quarantined(const Member& member) const;
  /// The part of the budget that is assigned to nobody.
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
  /// Buffers completed and not posted again; without any, a post gives nothing back.
  std::uint32_t unreplenished() const { return holdings_.count(); }
  /// What this object takes, in bytes.
  static std::size_t bytes_for(std::uint32_t buffers);

 private:
  struct Account {
    IndexLink link;                ///< in free_, idle_ or holding_
    std::uint32_t generation = 0;  ///< 0: of no member
    Qpn qpn;
    std::uint32_t held = 0;
    std::uint32_t limit = 0;     ///< now
    std::uint32_t standard = 0;  ///< by the table, or its own
    std::uint32_t peak = 0;      ///< most held since `since`
    float average = 0;           ///< of the peaks
    float score = 0;             ///< at `scored`
    Time scored{};
    Time since{};
    std::uint8_t importance = 0;
    bool drawing = false;    ///< a message under way has a buffer
    bool exceeding = false;  ///< it is over its limit, and that was reported
    bool orphan = false;     ///< its queue pair is gone
    bool own_limit = false;  ///< not that of its terms
    LimitKind kind = LimitKind::kHard;
    OnExceed on_exceed = OnExceed::kDropMessage;
    bool quarantined = false;

    /// Of the budget.
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
  /// Runs `f`, which changes limit or holdings of `account`, and keeps the sum right.
  template <class F>
  void change(Account& account, F&& f) {
    assigned_ -= account.share();
    f();
    assigned_ += account.share();
  }

  // provisioner_adjust.cpp
  void visit(List& list, Time now);
  void adjust(Account& account, Time now);
  void rank(const List& list, Time now, Alarm& alarm) const;
  void choose_victim(Time now, Alarm& alarm);

  SrqPolicy policy_;
  ProvisioningCounters& counters_;
  Holdings holdings_;
  std::vector<Account> accounts_;
  List free_;
  List idle_;     ///< hold nothing; least lately active first
  List holding_;  ///< hold something
  std::uint32_t in_use_ = 0;
  std::uint32_t generation_ = 0;  ///< of the account opened last
  std::uint32_t buffers_;
  std::uint64_t budget_ = 0;
  std::uint64_t assigned_ = 0;
  Figures figures_;
  Time next_alarm_{};
};

}  // namespace softhca::receive
