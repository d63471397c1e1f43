// Minimum rates of tenants, of their QoS classes, of TVLs and of queue pairs: who is behind its
// own, and therefore goes before others wherever these take turns.
//
// Rates are of bytes that turns of queue pairs move. A minimum of a class is part of that
// of its tenant, one of a TVL or queue pair part of that of its class, so at each step from the
// tenants downwards the one that is behind goes first, and where none is, the order is by weights.
//
// Only who moves bytes goes first. Work that comes to nothing (doorbells that say nothing, turns in
// which nothing could be sent) would let a class that stays behind keep others from theirs: so it
// goes first only with so much of that for what it moves. Otherwise it goes by its weight, which
// may mean that it moves nothing for long, so such work is forgiven after a while.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/base/types.hpp"
#include "daemon/schedule/minimum_rate.hpp"

namespace softhca::schedule {

class MinimumRates {
 public:
  MinimumRates(std::uint16_t tenants, std::uint16_t classes, std::uint16_t tvls,
               std::uint32_t queue_pairs);

  // --- set-up: on the thread that uses it, or before; allocates
  void set(TenantId tenant, const Rate& rate);
  /// A class, which is the tenant's from now on, minimum or not.
  void set(QosClassId qos_class, TenantId tenant, const Rate& rate);
  void set(TvlId tvl, QosClassId qos_class, const Rate& rate);
  void set_queue_pair(std::uint32_t slot, const Rate& rate);
  /// The tenant is going, and its classes.
  void forget(TenantId tenant);

  const MinimumRate& of(TenantId tenant) const { return tenants_[tenant.value].rate; }
  const MinimumRate& of(QosClassId qos_class) const { return classes_[qos_class.value].rate; }
  const MinimumRate& of(TvlId tvl) const { return tvls_[tvl.value].rate; }
  Rate of_queue_pair(std::uint32_t slot) const {
    return slot < queue_pairs_.size() ? queue_pairs_[slot].rate() : Rate{};
  }

  // --- who is behind
  bool any() const { return given_ != 0; }
  void begin_step(Time now) { now_ = now - behind_by_; }
  /// The tenant, which is behind for longest, has its turn. If that is too long there is not enough
  /// for all minimums: they are short in proportion, by a clock that is slow.
  void keep_up_with(std::uint32_t tenant) {
    const Duration excess = now_ - tenants_[tenant].rate.due() - MinimumRate::kLongestLag;
    if (excess <= Duration::zero()) return;
    behind_by_ += excess;
    now_ -= excess;
  }
  /// May the class, or one of its tenant's other classes for it, go before others?
  bool behind(QosClassId qos_class) const {
    const QosClass& it = classes_[qos_class.value];
    return it.tenant != kNoTenant && !comes_to_nothing(qos_class) &&
           (it.rate.behind(now_) || tenants_[it.tenant].rate.behind(now_));
  }
  /// The same for a TVL of the class.
  bool behind(TvlId tvl, QosClassId qos_class) const {
    return behind(qos_class) ||
           (tvls_[tvl.value].rate.behind(now_) && !comes_to_nothing(qos_class));
  }
  bool queue_pair_behind(std::uint32_t slot) const {
    return slot < queue_pairs_.size() && queue_pairs_[slot].behind(now_);
  }
  /// Is there a minimum for its tenant or for itself?
  bool covers(QosClassId qos_class) const {
    if (qos_class.value >= classes_.size()) return false;
    const QosClass& it = classes_[qos_class.value];
    return it.rate.given() || (it.tenant != kNoTenant && tenants_[it.tenant].rate.given());
  }
  /// Work for the class has come to nothing too often for what it has moved, or in this step.
  bool comes_to_nothing(QosClassId qos_class) const {
    const QosClass& it = classes_[qos_class.value];
    return vain_of(it) > kMostVain || (it.vain_turns >= kMostVainTurns && it.vain_since == now_);
  }

  /// Of the tenants with a minimum that `may` accepts, the one that is behind for longest;
  /// kNoIndex: none is behind.
  template <class May>
  std::uint32_t first_tenant(May&& may) const {
    return first_of(rated_tenants_, tenants_, may);
  }
  /// The same for the classes of a tenant, and the TVLs of a class.
  template <class May>
  std::uint32_t first_class(TenantId tenant, May&& may) const {
    return first_of(tenants_[tenant.value].classes, classes_, may);
  }
  template <class May>
  std::uint32_t first_tvl(QosClassId qos_class, May&& may) const {
    return first_of(classes_[qos_class.value].tvls, tvls_, may);
  }
  /// Classes of tenants that have minimums.
  const std::vector<QosClassId>& covered() const { return covered_; }

  // --- what they have moved
  /// Which of them went before others, who waited.
  struct First {
    bool tenant = false;
    bool qos_class = false;
    bool tvl = false;
    bool any() const { return tenant || qos_class || tvl; }
  };
  /// A turn of the queue pair is over, and has taken so long.
  void turn_over(QosClassId qos_class, TvlId tvl, std::uint32_t slot, std::uint64_t bytes,
                 std::uint64_t cost, const First& first);
  /// Work for a class that is behind, outside the turns of its queue pairs.
  void worked(QosClassId qos_class, std::uint64_t cost);
  /// How much of the engine the tenant has had before others, in cost units.
  std::uint64_t first_cost(TenantId tenant) const { return tenants_[tenant.value].first_cost; }

  // --- who has something to do
  /// One more queue pair of the class has commands, which may wait for their peers.
  void began(QosClassId qos_class) {
    QosClass& it = classes_[qos_class.value];
    if (it.under_way++ == 0) it.rate.resume(now_);
    if (it.tenant != kNoTenant && tenants_[it.tenant].under_way++ == 0)
      tenants_[it.tenant].rate.resume(now_);
  }
  /// One of them has none any more. Have others of the class, or of its tenant, turns?
  void ended(QosClassId qos_class, bool class_has_turns, bool tenant_has_turns) {
    QosClass& it = classes_[qos_class.value];
    if (--it.under_way == 0 && !class_has_turns) it.rate.rest(now_);
    if (it.tenant != kNoTenant && --tenants_[it.tenant].under_way == 0 && !tenant_has_turns)
      tenants_[it.tenant].rate.rest(now_);
  }
  /// It has turns, or none: then it rests, unless it has commands.
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
  static constexpr std::uint32_t kNoClass = 0xffffffff;
  /// Cost units of work that may come to nothing, and how many a byte that moves pays for: 4 us for
  /// a message of 4 KiB.
  static constexpr std::uint64_t kMostVain = 1 << 20;
  static constexpr std::uint64_t kVainOfByte = 8;
  /// A unit is forgiven after this time: work that comes to nothing goes first in 1/128 of the
  /// time. Of more than twice `kMostVain` the rest is forgiven at once.
  static constexpr Duration kForgiven{16};
  /// Turns in which nothing moves, in a poll step.
  static constexpr std::uint32_t kMostVainTurns = 2;

  struct Tenant {
    MinimumRate rate;
    std::vector<std::uint32_t> classes;  ///< with a minimum
    std::uint64_t first_cost = 0;
    std::uint32_t under_way = 0;  ///< queue pairs with commands
  };
  struct QosClass {
    MinimumRate rate;
    std::vector<std::uint32_t> tvls;  ///< with a minimum
    std::uint32_t tenant = kNoTenant;
    std::uint32_t under_way = 0;  ///< queue pairs with commands
    std::uint64_t vain = 0;
    Time vain_as_of{};
    std::uint32_t vain_turns = 0;
    Time vain_since{};  ///< the step of these
  };
  struct Tvl {
    MinimumRate rate;
    std::uint32_t qos_class = kNoClass;
  };

  template <class All, class May>
  std::uint32_t first_of(const std::vector<std::uint32_t>& rated, const All& all, May&& may) const {
    std::uint32_t first = 0xffffffff;
    for (const std::uint32_t i : rated)
      if (all[i].rate.behind(now_) &&
          (first == 0xffffffff || all[i].rate.due() < all[first].rate.due()) && may(i))
        first = i;
    return first;
  }
  /// Cost units of work that has come to nothing and is not forgiven.
  std::uint64_t vain_of(const QosClass& qos_class) const {
    if (qos_class.vain == 0) return 0;
    const auto forgiven =
        static_cast<std::uint64_t>(std::max(now_ - qos_class.vain_as_of, Duration()) / kForgiven);
    return qos_class.vain - std::min(qos_class.vain, forgiven);
  }
  void add_vain(QosClass& qos_class, std::uint64_t cost);
  bool change(MinimumRate& of, const Rate& rate);
  void join(QosClass& qos_class, std::uint32_t tenant);
  void find_rated();

  Time now_{};            ///< by the clock of minimums
  Duration behind_by_{};  ///< it is so slow
  std::uint32_t given_ = 0;
  std::uint32_t slots_;
  std::vector<Tenant> tenants_;
  std::vector<QosClass> classes_;
  std::vector<Tvl> tvls_;
  std::vector<MinimumRate> queue_pairs_;  ///< by slot; empty: none has one
  std::vector<std::uint32_t> rated_tenants_;
  std::vector<QosClassId> covered_;
};

}  // namespace softhca::schedule
