// SPDX-License-Identifier: Apache-2.0

// Minimum rates of tenants, of their QoS classes and of queue pairs. A holder that is behind its
// own goes before others wherever these take turns.
//
// Rates are of bytes that turns of queue pairs move. A minimum of a class is part of that of its
// tenant. A minimum of a queue pair is part of that of its class. So at each step from the
// tenants downwards the one that is behind goes first. Where none is, the order is by weights.
//
// Only a class that moves bytes goes first. Work that comes to nothing (doorbells that say nothing,
// turns in which nothing could be sent) would let a class that stays behind keep others from their
// rates. So the bytes that a class moves bound how much of such work goes first. Beyond that it
// goes by its weight, which may mean that it moves nothing for long. So such work is forgiven after
// a while.
//
// Minimums may be more than the engine can do for a while. A holder that is far behind therefore
// goes first in 15/16 of the time only; the rest is divided by weight. Otherwise others would have
// nothing until their peers, which wait for answers, give up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/base/types.hpp"
#include "daemon/qos/schedule/minimum_rate.hpp"

namespace softhca::schedule {

class MinimumRates {
 public:
  MinimumRates(std::uint16_t tenants, std::uint16_t classes, std::uint32_t queue_pairs);

  // --- set-up: on the thread that uses it, or before; allocates
  void set(TenantId tenant, const Rate& rate);
  /// Sets the minimum of a class, which belongs to the tenant from now on, with a minimum or not.
  void set(QosClassId qos_class, TenantId tenant, const Rate& rate);
  void set_queue_pair(std::uint32_t slot, const Rate& rate);
  /// Removes the minimums of the tenant and of its classes, since it is about to be removed.
  void forget(TenantId tenant);
  /// Takes a removed class from its tenant.
  void forget(QosClassId qos_class);

  const MinimumRate& of(TenantId tenant) const { return tenants_[tenant.value].rate; }
  const MinimumRate& of(QosClassId qos_class) const { return classes_[qos_class.value].rate; }
  Rate of_queue_pair(std::uint32_t slot) const {
    return slot < queue_pairs_.size() ? queue_pairs_[slot].rate() : Rate{};
  }

  // --- which are behind
  bool any() const { return given_ != 0; }
  void begin_step(Time now) {
    now_ = now - behind_by_;
    if (now >= next_others_) {
      others_until_ = now + kTimeForOthers;
      next_others_ = now + kPartForOthers * kTimeForOthers;
    }
    for_others_ = now < others_until_;
  }
  /// To be called when the tenant that is behind for longest has its turn. If it is behind for too
  /// long, there is not enough for all minimums. Their clock is slowed down then, so that they all
  /// fall short in proportion.
  void keep_up_with(std::uint32_t tenant) {
    const Duration excess = now_ - tenants_[tenant].rate.due() - MinimumRate::kLongestLag;
    if (excess <= Duration::zero()) return;
    behind_by_ += excess;
    now_ -= excess;
  }
  /// True if the class may go before others, for its minimum or for that of its tenant.
  bool behind(QosClassId qos_class) const {
    const QosClass& it = classes_[qos_class.value];
    return it.tenant != kNoTenant && !comes_to_nothing(qos_class) &&
           (is_behind(it.rate) || is_behind(tenants_[it.tenant].rate));
  }
  bool queue_pair_behind(std::uint32_t slot) const {
    return slot < queue_pairs_.size() && is_behind(queue_pairs_[slot]);
  }
  /// True if there is a minimum for its tenant or for itself.
  bool covers(QosClassId qos_class) const {
    if (qos_class.value >= classes_.size()) return false;
    const QosClass& it = classes_[qos_class.value];
    return it.rate.given() || (it.tenant != kNoTenant && tenants_[it.tenant].rate.given());
  }
  /// True if work for the class has come to nothing too often for what it has moved, or in this
  /// step.
  bool comes_to_nothing(QosClassId qos_class) const {
    const QosClass& it = classes_[qos_class.value];
    return vain_of(it) > kMostVain || (it.vain_turns >= kMostVainTurns && it.vain_since == now_);
  }

  /// Returns the tenant that is behind for longest, among those with a minimum that `may` accepts;
  /// kNoIndex: none is behind.
  template <class May>
  std::uint32_t first_tenant(May&& may) const {
    return first_of(rated_tenants_, tenants_, may);
  }
  /// The same for the classes of a tenant.
  template <class May>
  std::uint32_t first_class(TenantId tenant, May&& may) const {
    return first_of(tenants_[tenant.value].classes, classes_, may);
  }
  /// Classes with a minimum, and those of tenants with one.
  const std::vector<QosClassId>& covered() const { return covered_; }

  // --- what they have moved
  /// Which of them went before others that waited.
  struct First {
    bool tenant = false;
    bool qos_class = false;
    bool any() const { return tenant || qos_class; }
  };
  /// Counts a turn of the queue pair, which has moved `bytes` and taken `cost`.
  void turn_over(QosClassId qos_class, std::uint32_t slot, std::uint64_t bytes, std::uint64_t cost,
                 const First& first);
  /// Counts work for a class that is behind, outside the turns of its queue pairs.
  void worked(QosClassId qos_class, std::uint64_t cost);
  /// Adds work for turns that went first and moved bytes.
  void add_first_cost(TenantId tenant, std::uint64_t cost) {
    tenants_[tenant.value].first_cost += cost;
  }
  /// Returns how much of the engine the tenant has had before others, in cost units.
  std::uint64_t first_cost(TenantId tenant) const { return tenants_[tenant.value].first_cost; }

  // --- which have something to do
  /// Counts one more queue pair of the class with commands, which may wait for their peers.
  void began(QosClassId qos_class) {
    QosClass& it = classes_[qos_class.value];
    if (it.under_way++ == 0) it.rate.resume(now_);
    if (it.tenant != kNoTenant && tenants_[it.tenant].under_way++ == 0)
      tenants_[it.tenant].rate.resume(now_);
  }
  /// Counts out a queue pair that has no commands any more. `class_has_turns`, `tenant_has_turns`:
  /// others of the class, or of its tenant, have turns.
  void ended(QosClassId qos_class, bool class_has_turns, bool tenant_has_turns) {
    QosClass& it = classes_[qos_class.value];
    if (--it.under_way == 0 && !class_has_turns) it.rate.rest(now_);
    if (it.tenant != kNoTenant && --tenants_[it.tenant].under_way == 0 && !tenant_has_turns)
      tenants_[it.tenant].rate.rest(now_);
  }
  /// To be called when it gets turns, or has none any more: then it is idle, unless it has
  /// commands.
  void resume_tenant(std::uint32_t tenant) { tenants_[tenant].rate.resume(now_); }
  void rest_tenant(std::uint32_t tenant) {
    if (tenants_[tenant].under_way == 0) tenants_[tenant].rate.rest(now_);
  }
  void resume_class(std::uint32_t qos_class) { classes_[qos_class].rate.resume(now_); }
  void rest_class(std::uint32_t qos_class) {
    if (classes_[qos_class].under_way == 0) classes_[qos_class].rate.rest(now_);
  }

 private:
  static constexpr std::uint32_t kNoTenant = 0xffffffff;
  /// Cost units of work that may come to nothing, and how many a byte that moves pays for: 4 us for
  /// a message of 4 KiB.
  static constexpr std::uint64_t kMostVain = 1 << 20;
  static constexpr std::uint64_t kVainOfByte = 8;
  /// Most cost units of such work that count; the rest is forgiven at once.
  static constexpr std::uint64_t kCountedVain = 8 * kMostVain;
  /// The time in which a unit is forgiven, of all classes of a tenant together: their work that
  /// comes to nothing goes first in 1/128 of the time.
  static constexpr Duration kForgiven{16};
  /// The time that is divided by weight where holders are far behind: this, once in so many of it.
  static constexpr Duration kTimeForOthers = std::chrono::milliseconds(1);
  static constexpr int kPartForOthers = 16;
  /// A holder is far behind when its next byte has been due for longer than this.
  static constexpr Duration kFarBehind = std::chrono::milliseconds(10);
  /// Most turns in a poll step in which nothing moves.
  static constexpr std::uint32_t kMostVainTurns = 2;

  struct Tenant {
    MinimumRate rate;
    std::vector<std::uint32_t> classes;  ///< with a minimum
    std::uint64_t first_cost = 0;
    std::uint32_t under_way = 0;  ///< queue pairs with commands
    std::uint32_t members = 0;    ///< its classes
  };
  struct QosClass {
    MinimumRate rate;
    std::uint32_t tenant = kNoTenant;
    std::uint32_t under_way = 0;  ///< queue pairs with commands
    std::uint64_t vain = 0;
    Time vain_as_of{};
    std::uint32_t vain_turns = 0;
    Time vain_since{};  ///< the poll step of these turns
  };
  bool is_behind(const MinimumRate& rate) const {
    return rate.behind(now_) && !(for_others_ && now_ - rate.due() > kFarBehind);
  }
  template <class All, class May>
  std::uint32_t first_of(const std::vector<std::uint32_t>& rated, const All& all, May&& may) const {
    std::uint32_t first = 0xffffffff;
    for (const std::uint32_t i : rated)
      if (is_behind(all[i].rate) &&
          (first == 0xffffffff || all[i].rate.due() < all[first].rate.due()) && may(i))
        first = i;
    return first;
  }
  /// Returns the cost units of work that has come to nothing and is not forgiven.
  std::uint64_t vain_of(const QosClass& qos_class) const {
    if (qos_class.vain == 0) return 0;
    const Duration past = std::max(now_ - qos_class.vain_as_of, Duration());
    const std::uint32_t members =
        qos_class.tenant == kNoTenant ? 1 : tenants_[qos_class.tenant].members;
    const auto forgiven = static_cast<std::uint64_t>(past / (kForgiven * members));
    return qos_class.vain - std::min(qos_class.vain, forgiven);
  }
  void add_vain(QosClass& qos_class, std::uint64_t cost);
  bool change(MinimumRate& of, const Rate& rate);
  void join(QosClass& qos_class, std::uint32_t tenant);
  void find_rated();

  Time now_{};                           ///< by the clock of minimums
  Duration behind_by_{};                 ///< how late that clock is
  Time next_others_{}, others_until_{};  ///< the next such time, and the end of the last one
  bool for_others_ = false;
  std::uint32_t given_ = 0;
  std::uint32_t slots_;
  std::vector<Tenant> tenants_;
  std::vector<QosClass> classes_;
  std::vector<MinimumRate> queue_pairs_;  ///< by slot; empty: none has one
  std::vector<std::uint32_t> rated_tenants_;
  std::vector<QosClassId> covered_;
};

}  // namespace softhca::schedule
