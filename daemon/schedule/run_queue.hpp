// Queue pairs with work, and whose turn it is: fairness in the engine's time.
//
// The arbitrator decides which commands start; what a started command costs, a copy of 16 bytes or
// of a gigabyte, is known only as it is done. Here classes take turns by that cost, by start-time
// fair queuing (fair_order.hpp) on two levels: the tenants, and within a tenant its QoS levels, so
// that neither a tenant that floods starves another nor a level its sibling. A tenant without
// levels is a single class. Within a class the queue pairs go round.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"
#include "daemon/schedule/fair_order.hpp"

namespace softhca::schedule {

class RunQueue {
 public:
  /// Set-up only: allocates. Classes are numbered from 0 on, and the order of tenants by number.
  void reserve(std::uint32_t slots, std::uint16_t tenants, std::uint16_t classes);
  /// `qos_class` is one of the tenant's. Before its first push(), and again whenever the number is
  /// given to another tenant; allocates at times.
  void join(QosClassId qos_class, TenantId tenant);
  /// Shares of the engine relative to the other tenants, or to the other classes of the tenant;
  /// 1 to FairShare::kScale. Takes effect with the next cost.
  void set_tenant_weight(TenantId tenant, std::uint32_t weight) {
    tenants_[tenant.value].share.set_weight(weight);
  }
  void set_weight(QosClassId qos_class, std::uint32_t weight) {
    classes_[qos_class.value].share.set_weight(weight);
  }

  std::uint32_t tenant_weight(TenantId tenant) const {
    return tenants_[tenant.value].share.weight();
  }

  /// Nobody has work.
  bool empty() const { return order_.empty(); }
  bool contains(std::uint32_t slot) const { return entries_[slot].link.linked(); }
  /// A queue pair of the class has work.
  bool has_work(QosClassId qos_class) const { return classes_[qos_class.value].share.waits(); }
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
  void push(std::uint32_t slot, QosClassId qos_class);
  /// The next to be served; served() is to follow.
  std::optional<std::uint32_t> pop();
  /// What the queue pair popped last cost, and whether it has more work.
  void served(std::uint32_t slot, std::uint64_t cost, bool more);
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
  };
  using SlotList = IndexList<Entry, &Entry::link>;
  struct QosClass {
    FairShare share;
    SlotList queue;
    std::uint32_t tenant = kNoIndex;
    bool rested = true;  ///< was without work when its work came
    std::uint32_t rests = 0;
  };
  struct Tenant {
    FairShare share;
    FairOrder<QosClass, &QosClass::share> order;
    std::uint32_t classes = 0;
  };

  void enter(std::uint32_t qos_class);
  void leave(std::uint32_t qos_class);

  std::vector<Entry> entries_;
  std::vector<QosClass> classes_;
  std::vector<Tenant> tenants_;
  FairOrder<Tenant, &Tenant::share> order_;
  bool overtaken_ = false;
};

}  // namespace softhca::schedule
