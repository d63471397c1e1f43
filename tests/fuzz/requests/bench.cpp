// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/requests/bench.hpp"

#include <algorithm>
#include <utility>

namespace softhca::fuzz {
namespace {

/// Requires that a pool counts as many things as its holders.
struct Sum {
  std::uint64_t guaranteed = 0, lent = 0, in_use = 0, shared_in_use = 0;

  void add(const Quota& quota) {
    guaranteed += quota.guaranteed.value();
    lent += quota.lent.value();
  }
  void add_use(const Quota& quota) {
    in_use += quota.in_use.value();
    shared_in_use += quota.shared_in_use();
  }
  void check(const QuotaPool& pool) const {
    require(pool.unallocated() + guaranteed == pool.total(), "guarantees add up to the pool");
    require(pool.lent() == lent, "the pool knows what is lent");
    require(pool.in_use() == in_use, "the pool knows what is in use");
    require(pool.shared_in_use() == shared_in_use,
            "the pool knows what is drawn of its shared part");
  }
};

}  // namespace

engine::EngineLimits Bench::limits() {
  engine::EngineLimits limits{.vcbs = 4 * kVcbs,
                              .pcbs = kPcbs + kServices * kPcbsOfService,
                              .dedicated_pcbs = kDedicated,
                              .tenants = kTenants + kServices,
                              .levels = 5,
                              .tvls = 2 * kTvls + kTenants + 5 + 2 * kServices,
                              .execution_credits = kExecution,
                              .completion_credits = kCompletion,
                              .queue_pairs = 32,
                              .memory_regions = 32,
                              .memory_windows = 8,
                              .kept_packets = 32};
  limits.doorbells.entries = kDoorbells;
  limits.doorbells.threshold = 1;
  return limits;
}

Bench::Bench() : engine(limits(), sink) {
  auto [near, far] = port::MemoryPort::make_pair({.buffers = 64, .mtu = kMtu});
  far_end = std::move(far);
  auto binding = std::make_unique<engine::PortBinding>();
  binding->id = PortId(0);
  binding->name = "uplink";
  port::Port* const raw = near.get();
  binding->port = std::move(near);
  binding->neighbours = std::make_unique<neighbour::Neighbours>(
      neighbour::Neighbours::Options{.mac = raw->mac(), .vlan = {}},
      [raw](std::span<const std::byte> bytes) {
        port::Frame frame = raw->allocate();
        if (!frame) return;
        std::copy(bytes.begin(), bytes.end(), frame.data);
        frame.length = static_cast<std::uint32_t>(bytes.size());
        raw->transmit(frame);
      });
  ask(engine::AddPort{std::move(binding)});
}

void Bench::poll(unsigned steps) {
  for (; steps != 0; --steps) {
    now_ += std::chrono::microseconds(1);
    engine.poll(now_);
  }
}

void Bench::pass(Duration time) {
  constexpr int kMostSteps = 64;
  constexpr Duration kTryAgain = std::chrono::microseconds(4);
  const Time end = now_ + time;
  for (int i = 0; i < kMostSteps && now_ < end; ++i) {
    poll();
    Time next = std::min(end, engine.next_deadline());
    if (engine.has_runnable()) next = std::min(next, now_ + kTryAgain);
    now_ = std::max(now_, next);
  }
  now_ = std::max(now_, end);
}

std::vector<std::uint64_t> Bench::allotted() {
  const collect::PcbPool& pcbs = engine.pcbs();
  std::vector<std::uint64_t> out = {pcbs.dedicated(), pcbs.quota().total()};
  const auto add = [&](const Quota& quota) {
    out.insert(out.end(), {quota.guaranteed.value(), quota.lent.value(), quota.draining.value(),
                           quota.in_use.value(), quota.may_share});
  };
  for (std::uint16_t i = 0; i < pcbs.max_groups(); ++i) {
    const collect::CollectGroup& group = pcbs.group(QosClassId(i));
    if (!group.used) continue;
    out.insert(out.end(), {i, group.tenant.value, group.parent.value, group.is_default,
                           group.undivided, group.dedicated_limit.value()});
    add(group.pcbs);
  }
  for (std::uint16_t i = 0; i < engine.tvls().size(); ++i) {
    const schedule::Tvl& tvl = engine.tvls()[TvlId(i)];
    if (!tvl.used || tvl.closing) continue;
    out.insert(out.end(), {i, tvl.tenant.value, tvl.qos_class.value, tvl.weight, tvl.max_kick_list,
                           tvl.queue_pairs});
    add(tvl.execution);
    add(tvl.completion);
  }
  for (std::uint16_t i = 0; i < kTenants + kServices; ++i)
    out.push_back(engine.cpu().order().tenant_weight(TenantId(i)));
  return out;
}

void Bench::check() const {
  const collect::PcbPool& pcbs = engine.pcbs();
  Sum of_pcbs;
  for (std::uint16_t i = 0; i < pcbs.max_groups(); ++i) {
    const collect::CollectGroup& group = pcbs.group(QosClassId(i));
    if (!group.used) continue;
    of_pcbs.add(group.pcbs);
    if (group.parent != kNoQosClass) continue;
    of_pcbs.in_use += group.all_in_use.value();
    of_pcbs.shared_in_use += group.pcbs.shared_in_use();
  }
  of_pcbs.check(pcbs.quota());
  const schedule::TvlTable& tvls = engine.tvls();
  Sum of_execution, of_completion;
  for (std::uint16_t i = 0; i < tvls.size(); ++i) {
    const schedule::Tvl& tvl = tvls[TvlId(i)];
    if (!tvl.used) continue;
    for (auto [sum, quota] :
         {std::pair(&of_execution, &tvl.execution), std::pair(&of_completion, &tvl.completion)}) {
      sum->add(*quota);
      sum->add_use(*quota);
    }
  }
  of_execution.check(tvls.execution_pool());
  of_completion.check(tvls.completion_pool());
}

void Bench::check_idle() {
  check();
  require(engine.pcbs().quota().in_use() == 0, "no PCB is in use");
  for (std::uint16_t i = 0; i < engine.pcbs().max_groups(); ++i) {
    const collect::CollectGroup& group = engine.pcbs().group(QosClassId(i));
    require(!group.used || group.dedicated_in_use.value() == 0, "no dedicated PCB is in use");
  }
  require(engine.tvls().execution_pool().in_use() == 0, "no execution credit is in use");
  require(engine.tvls().completion_pool().in_use() == 0, "no completion credit is in use");
  for (std::uint16_t i = 0; i < engine.tvls().size(); ++i) {
    const schedule::Tvl& tvl = engine.tvls()[TvlId(i)];
    require(!tvl.used || tvl.queue_pairs == 0, "no queue pair is on a TVL");
    require(engine.arbitrator().counters(TvlId(i)).waiting.value() == 0, "no command waits");
  }
  require(!engine.scheduler().has_work(), "no doorbell is left");
  require(engine.intake().functions().unassigned() == engine.intake().functions().size(),
          "no VCB is assigned");
  require(engine.intake().sessions().empty(), "no session is polled");
  require(engine.keys().size() == 0, "no key is left");
  require(engine.memory().windows().size() == 0, "no memory window is left");
  require(engine.receive_queues().size() == 0, "no shared receive queue is left");
  require(!engine.has_runnable(), "nothing is left to be done");
}

void Bench::check_empty(std::size_t services) {
  require(allocations.closing() == 0, "no removed TVL is left");
  std::size_t groups = 0, tvls = 0;
  for (std::uint16_t i = 0; i < engine.pcbs().max_groups(); ++i)
    groups += engine.pcbs().group(QosClassId(i)).used;
  for (std::uint16_t i = 0; i < engine.tvls().size(); ++i) tvls += engine.tvls()[TvlId(i)].used;
  require(groups <= services, "no row of a tenant or level is left");
  require(tvls <= 2 * services, "no TVL is left");
  require(engine.addresses().tenants().size() <= services, "no tenant is left");
}

}  // namespace softhca::fuzz
