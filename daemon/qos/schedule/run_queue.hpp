// SPDX-License-Identifier: Apache-2.0

// Queue pairs with work, and the order of their turns: fairness in the engine's time.
//
// The arbitrator decides which commands start. The cost of a started command, a copy of 16 bytes or
// of a gigabyte, is known only as it is done. Here classes take turns by that cost, by start-time
// fair queuing (fair_order.hpp). It is used between the tenants, between the QoS levels of a
// tenant, and between the TVLs of a level by their weights. So a tenant that floods does not starve
// another, nor a level its sibling. A tenant without levels is a single class. Within a TVL the
// queue pairs go round.
//
// A tenant or level that is behind a minimum rate (minimum_rates.hpp) goes before that order. What
// it moves then costs it nothing there, so its share of the rest stays as it was.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/schedule/fair_order.hpp"
#include "daemon/qos/schedule/minimum_rates.hpp"

namespace softhca::schedule {

class RunQueue {
 public:
  /// Set-up only: allocates. Classes and tenants have numbers from 0 on. Without TVLs, all queue
  /// pairs of a class go round.
  void reserve(std::uint32_t slots, std::uint16_t tenants, std::uint16_t classes,
               std::uint16_t tvls = 0);
  /// Adds the class to those of the tenant. To be called before its first push(), and again
  /// whenever the number goes to another tenant; allocates at times.
  void join(QosClassId qos_class, TenantId tenant);
  /// Lets competitors that are behind a minimum go first. `minimums` outlives the queue. With
  /// `for_queue_pairs`, slots are those of queue pairs, and the queue reports to `minimums` which
  /// classes and tenants have work.
  void heed(MinimumRates& minimums, bool for_queue_pairs) {
    minimums_ = &minimums;
    for_queue_pairs_ = for_queue_pairs;
  }
  /// Sets shares of the engine relative to the other tenants, or to the other classes of the
  /// tenant; 1 to FairShare::kScale. Takes effect with the next cost.
  void set_tenant_weight(TenantId tenant, std::uint32_t weight) {
    tenants_[tenant.value].share.set_weight(weight);
  }
  void set_weight(QosClassId qos_class, std::uint32_t weight) {
    classes_[qos_class.value].share.set_weight(weight);
  }

  /// Gives the TVL to the class, with that share relative to its other TVLs. Allocates if the class
  /// did not have it. REQUIRES: no queue pair has work in a TVL that goes to another class.
  void set_tvl(TvlId tvl, QosClassId qos_class, std::uint32_t weight);

  std::uint32_t tenant_weight(TenantId tenant) const {
    return tenants_[tenant.value].share.weight();
  }

  /// Returns the cost of turns that the tenant had for its minimum rate, not by its weight.
  std::uint64_t first_cost(TenantId tenant) const {
    return minimums_ == nullptr ? 0 : minimums_->first_cost(tenant);
  }

  /// True if no queue pair has work.
  bool empty() const { return order_.empty(); }
  bool contains(std::uint32_t slot) const { return entries_[slot].link.linked(); }
  /// True if a queue pair of the class has work.
  bool has_work(QosClassId qos_class) const { return classes_[qos_class.value].share.waits(); }
  bool has_work(TenantId tenant) const { return tenants_[tenant.value].share.waits(); }
  /// Returns how often the class has been served until it had no more work.
  std::uint32_t rests(QosClassId qos_class) const { return classes_[qos_class.value].rests; }
  /// REQUIRES: the slot was pushed once.
  QosClassId class_of(std::uint32_t slot) const { return entries_[slot].qos_class; }
  /// True if other classes than this one have work.
  bool contended(QosClassId qos_class) const {
    const std::uint32_t tenant = classes_[qos_class.value].tenant;
    return order_.others(tenants_.data(), tenant) ||
           tenants_[tenant].order.others(classes_.data(), qos_class.value);
  }
  /// True if the queue pair popped last is of a class that had been without work while others
  /// waited: that class asks for little, beside others that ask for much.
  bool overtaken() const { return overtaken_; }

  /// Adds a queue pair that has work. Does nothing if that is known.
  void push(std::uint32_t slot, QosClassId qos_class) {
    if (contains(slot)) return;
    push_into(slot, qos_class, lane_without_tvl(qos_class), true);
  }
  /// Does the same with a TVL; that of another class counts as none.
  void push(std::uint32_t slot, QosClassId qos_class, TvlId tvl) {
    if (contains(slot)) return;
    const bool own = tvl.value < tvls_ && lanes_[tvl.value].qos_class == qos_class.value;
    push_into(slot, qos_class, own ? tvl.value : lane_without_tvl(qos_class), true);
  }
  /// Takes the next queue pair to be served; served() is to follow.
  std::optional<std::uint32_t> pop();
  /// Returns which of tenant and class of the current turn, if there is one, went before
  /// others for a minimum.
  const MinimumRates::First& went_first() const { return first_; }
  /// Charges the queue pair popped last, and adds it again if it has more work. `in_vain`: nothing
  /// came of the turn, so it is charged even if it went first.
  void served(std::uint32_t slot, std::uint64_t cost, bool more, bool in_vain = false);
  /// Charges the class for a cost outside the turns of its queue pairs.
  void charge(QosClassId qos_class, std::uint64_t cost);
  /// Removes a queue pair. Does nothing if it is not queued.
  void remove(std::uint32_t slot);

  /// True if the class may begin something new: it has had no more than `lead`, times its weight,
  /// beyond what the others have for theirs and FairShare::kSlack, or the others want nothing.
  bool may_begin(QosClassId qos_class, std::uint64_t lead) const;

 private:
  struct Entry {
    IndexLink link;
    QosClassId qos_class;
    std::uint16_t lane = 0;
  };
  using SlotList = IndexList<Entry, &Entry::link>;
  /// Queue pairs of a TVL, or those of a class that have none of its TVLs.
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

  /// The lanes of classes stand behind those of TVLs.
  std::uint32_t lane_without_tvl(QosClassId qos_class) const { return tvls_ + qos_class.value; }
  /// REQUIRES: the queue pair is not queued.
  void push_into(std::uint32_t slot, QosClassId qos_class, std::uint32_t lane, bool may_be_first);
  bool heeds() const { return minimums_ != nullptr && minimums_->any(); }
  std::uint32_t class_behind(std::uint32_t tenant) const;
  std::uint32_t tenant_behind() const;
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
