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

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/receive/holdings.hpp"
#include "daemon/receive/policy.hpp"

namespace softhca::receive {

/// What a queue pair on a shared receive queue keeps itself. To be zeroed when it joins another.
struct Member {
  static constexpr std::uint32_t kByPolicy = 0xffffffff;
  std::uint32_t account = kNoIndex;
  std::uint32_t generation = 0;
  std::uint32_t limit = kByPolicy;  ///< its own, or that of the table; written by set_limit()
  std::uint8_t importance = 0;      ///< below kImportances; written by the engine
  static constexpr std::uint8_t kByPath = 0xff;
  std::uint8_t own_importance = kByPath;  ///< as the operator says, or that of its path

  /// True: there may be something to remember of the queue pair.
  bool is_known() const { return account != kNoIndex || limit != kByPolicy; }
};

enum class Decision : std::uint8_t {
  kGranted,
  kGrantedOverSoftLimit,  ///< the first time since it was within its limit
  kRefused,
  kRefusedFirst,    ///< the first time since it was within its limit
  kDropConnection,  ///< no buffer, and its queue pair has to go to the error state
};
constexpr bool is_granted(Decision d) {
  return d == Decision::kGranted || d == Decision::kGrantedOverSoftLimit;
}

struct Offender {
  Qpn qpn;
  std::uint32_t held = 0;
  std::uint32_t limit = 0;  ///< now; 0: none
  float score = 0;          ///< draws, each fading with the policy's half-life
};

/// The queue has fallen to its low watermark (D4).
struct Alarm {
  static constexpr std::size_t kMost = 4;
  std::array<Offender, kMost> offenders;  ///< highest score first
  std::size_t count = 0;
  std::optional<Qpn> drop;  ///< the connection to give up for more important ones (D6)
};

class Provisioner {
 public:
  /// Allocates. `buffers`: entries of the queue.
  Provisioner(std::uint32_t buffers, const SrqPolicy& policy, ProvisioningCounters& counters);

  const SrqPolicy& policy() const { return policy_; }
  /// May be called at any time. Holdings stay; limits begin anew from the table.
  void set_policy(const SrqPolicy& policy);
  /// Sets a limit of its own for one queue pair; 0: none; Member::kByPolicy: that of the table.
  void set_limit(Member& member, std::uint32_t limit);

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

  /// The queue is gone, with all that is held of it.
  void retire() { counters_.held.subtract(held_); }

  /// To be called after each draw. None, unless `available` has fallen to the watermark just now.
  std::optional<Alarm> watch(std::uint32_t available, Time now);

  /// The score board as an alarm has it, of the queue pairs that drew lately. Takes bounded time,
  /// however many there are.
  Alarm score_board(Time now) const;

  std::uint32_t held_by(const Member& member) const;
  std::uint32_t limit_of(const Member& member) const;  ///< now; 0: none
  /// The part of the budget that is assigned to nobody.
  std::uint32_t unassigned() const {
    return budget_ > assigned_ ? static_cast<std::uint32_t>(budget_ - assigned_) : 0;
  }
  std::uint32_t accounts_in_use() const { return in_use_; }
  std::uint32_t held() const { return held_; }
  /// Buffers completed and not posted again; without any, a post gives nothing back.
  std::uint32_t unreplenished() const { return holdings_.count(); }
  /// What this object takes, in bytes.
  static std::size_t bytes_for(std::uint32_t buffers);

 private:
  struct Account {
    IndexLink link;  ///< in free_, idle_ or holding_
    std::uint32_t generation = 0;
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
    bool own_limit = false;  ///< not that of the table
  };
  using List = IndexList<Account, &Account::link>;

  // provisioner.cpp
  Account* find(const Member& member);
  const Account* find(const Member& member) const;
  Account* open(Member& member, Qpn qpn, Time now);
  void close(std::uint32_t i);
  std::uint32_t standard_of(const Member& member) const;
  Decision exceed(Account& account);
  Decision refuse(Account& account);
  bool raise(Account& account, std::uint32_t step);
  void lower(Account& account, std::uint32_t limit);
  std::uint32_t index_of(const Account& account) const;
  void give_back(std::uint32_t i);
  static std::uint32_t share_of(const Account& account);
  template <class F>
  void change(Account& account, F&& f);

  // provisioner_adjust.cpp
  void visit(List& list, Time now);
  void adjust(Account& account, Time now);
  float score_of(const Account& account, Time now) const;
  void rank(const List& list, Time now, Alarm& alarm) const;
  void rank(const Account& account, Time now, Alarm& alarm) const;
  std::optional<Qpn> choose_victim(Time now) const;

  SrqPolicy policy_;
  ProvisioningCounters& counters_;
  Holdings holdings_;
  std::vector<Account> accounts_;
  List free_;
  List idle_;     ///< hold nothing; least lately active first
  List holding_;  ///< hold something
  std::uint32_t in_use_ = 0;
  std::uint32_t held_ = 0;  ///< buffers, by all accounts
  std::uint32_t buffers_;
  std::uint64_t budget_ = 0;
  std::uint64_t assigned_ = 0;
  bool low_ = false;  ///< at or below the watermark
  Time next_alarm_{};
};

}  // namespace softhca::receive
