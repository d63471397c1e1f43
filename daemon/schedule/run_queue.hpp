// Queue pairs with work, and whose turn it is: fairness in the engine's time.
//
// The arbitrator decides which commands start; what a started command costs, a copy of 16 bytes or
// of a gigabyte, is known only as it is done. Here classes take turns by that cost, by start-time
// fair queuing (fair_order.hpp): the tenants, within a tenant its QoS levels, so that neither a
// tenant that floods starves another nor a level its sibling, and within a level its TVLs by their
// weights. A tenant without levels is a single class. Within a TVL the queue pairs go round.
//
// Who is behind a minimum rate (minimum_rates.hpp) goes before that order, at each of these steps;
// what it moves then costs it nothing there, so that its share of the rest stays what it was.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/schedule/fair_order.hpp"
#include "daemon/schedule/minimum_rates.hpp"

namespace softhca::schedule {

class RunQueue {
 public:
  /// Set-up only: allocates. Classes are numbered from 0 on, and the order of tenants by number.
  /// Without TVLs, all of a class go round.
  void reserve(std::uint32_t slots, std::uint16_t tenants, std::uint16_t classes,
               std::uint16_t tvls = 0);
  /// `qos_class` is one of the tenant's. Before its first push(), and again whenever the number is
  /// given to another tenant; allocates at times.
  void join(QosClassId qos_class, TenantId tenant);
  /// Who is behind a minimum goes first. `minimums` outlives the queue. With `for_queue_pairs`,
  /// slots are those of queue pairs, and `minimums` learns who has work.
  void heed(MinimumRates& minimums, bool for_queue_pairs) {
    minimums_ = &minimums;
    for_queue_pairs_ = for_queue_pairs;
  }
  /// Shares of the engine relative to the other tenants, or to the other classes of the tenant;
  /// 1 to FairShare::kScale. Takes effect with the next cost.
  void set_tenant_weight(TenantId tenant, std::uint32_t weight) {
    tenants_[tenant.value].share.set_weight(weight);
  }
  void set_weight(QosClassId qos_class, std::uint32_t weight) {
    classes_[qos_class.value].share.set_weight(weight);
  }

  /// The TVL is the class's, with that share relative to its other TVLs. Allocates when it was not.
  /// REQUIRES: no queue pair has work in a TVL that comes to another class.
  void set_tvl(TvlId tvl, QosClassId qos_class, std::uint32_t weight);

  std::uint32_t tenant_weight(TenantId tenant) const {
    return tenants_[tenant.value].share.weight();
  }

  /// What the tenant has cost that was not by its weight, but for its minimum rate.
  std::uint64_t first_cost(TenantId tenant) const {
    return minimums_ == nullptr ? 0 : minimums_->first_cost(tenant);
  }

  /// Nobody has work.
  bool empty() const { return order_.empty(); }
  bool contains(std::uint32_t slot) const { return entries_[slot].link.linked(); }
  /// A queue pair of the class has work.
  bool has_work(QosClassId qos_class) const { return classes_[qos_class.value].share.waits(); }
  bool has_work(TenantId tenant) const { return tenants_[tenant.value].share.waits(); }
  /// How often the class has been served until it had no more work.
  std::uint32_t rests(QosClassId qos_class) const { return classes_[qos_class.value].rests; }
  /// REQUIRES: the slot was pushed once.
  QosClassId class_of(std::uint32_t slot) const { return entries_[slot].qos_class; }
  /// Others than this class have work.
  bool contended(QosClassId qos_class) const {
    const std::uint32_t tenant = classes_[qos_class.value].tenant;
    return order_.others(tenants_.data(), tenant) ||
           tenants_[tenant].order.others(classes_.data(), qos_class.value);
  }
  /// What was popped last came from a class that had been without work, while others waited:
  /// somebody asks for little, beside those who ask for much.
  bool overtaken() const { return overtaken_; }

  /// A queue pair has work. Nothing happens if that is known.
  void push(std::uint32_t slot, QosClassId qos_class) {
    push_into(slot, qos_class, lane_without_tvl(qos_class), true);
  }
  /// The same with a TVL; that of another class counts as none.
  void push(std::uint32_t slot, QosClassId qos_class, TvlId tvl) {
    const bool own = tvl.value < tvls_ && lanes_[tvl.value].qos_class == qos_class.value;
    push_into(slot, qos_class, own ? tvl.value : lane_without_tvl(qos_class), true);
  }
  /// The next to be served; served() is to follow.
  std::optional<std::uint32_t> pop();
  /// Who of what is being served, if anything is, went before others, for a minimum.
  const MinimumRates::First& went_first() const { return first_; }
  /// What the queue pair popped last cost, and whether it has more work. `in_vain`: nothing came of
  /// it, so it costs what it costs even if it went first.
  void served(std::uint32_t slot, std::uint64_t cost, bool more, bool in_vain = false);
  /// The class has cost something outside the turns of its queue pairs.
  void charge(QosClassId qos_class, std::uint64_t cost);
  /// Nothing happens if the queue pair is not queued.
  void remove(std::uint32_t slot);

  /// The class has had no more than `lead`, times its weight, beyond what the others have for
  /// theirs and FairShare::kSlack, or they want nothing: only then may it begin something new.
  bool may_begin(QosClassId qos_class, std::uint64_t lead) const;

 private:
  struct Entry {
    IndexLink link;
    QosClassId qos_class;
    std::uint16_t lane = 0;
  };
  using SlotList = IndexList<Entry, &Entry::link>;
  /// Queue pairs of a TVL, or those of a class that take none of its own.
  struct Lane {
    FairShare share;
    SlotList queue;
    std::uint32_t qos_class = kNoIndex;
    bool rested = true;  ///< was without work when its work came
  };
  struct QosClass {
    FairShare share;
    FairOrder<Lane, &Lane::share> order;
    std::uint32_t lanes = 1;
    std::uint32_t tenant = kNoIndex;
    bool rested = true;  ///< was without work when its work came
    std::uint32_t rests = 0;
  };
  struct Tenant {
    FairShare share;
    FairOrder<QosClass, &QosClass::share> order;
    std::uint32_t classes = 0;
  };

  /// Behind those of TVLs.
  std::uint32_t lane_without_tvl(QosClassId qos_class) const { return tvls_ + qos_class.value; }
  void push_into(std::uint32_t slot, QosClassId qos_class, std::uint32_t lane, bool may_be_first);
  bool heeds() const { return minimums_ != nullptr && minimums_->any(); }
  std::uint32_t class_behind(std::uint32_t tenant) const;
  std::uint32_t tenant_behind() const;
  std::uint32_t lane_behind(const QosClass& qos_class, std::uint32_t id) const;
  std::uint32_t pop_of(QosClass& qos_class, std::uint32_t id);
  void enter(std::uint32_t qos_class);
  void leave(std::uint32_t qos_class);

  std::vector<Entry> entries_;
  std::uint32_t tvls_ = 0;
  std::vector<Lane> lanes_;
  std::vector<QosClass> classes_;
  std::vector<Tenant> tenants_;
  FairOrder<Tenant, &Tenant::share> order_;
  bool overtaken_ = false;
  MinimumRates* minimums_ = nullptr;
  bool for_queue_pairs_ = false;
  MinimumRates::First first_;
};

}  // namespace softhca::schedule
