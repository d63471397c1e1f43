#include "tests/unit/engine/adapter.hpp"

#include <algorithm>

namespace softhca::engine {

void Adapter::add_lanes(const Tenant& tenant, QosClassId qos_class, const TenantOptions& options) {
  const auto add_lane = [&](schedule::TvlPurpose purpose, std::uint32_t kick_list) {
    const auto added = engine.tvl_assignment().add({.tenant = tenant.id,
                                                    .qos_class = qos_class,
                                                    .purpose = purpose,
                                                    .weight = 1,
                                                    .max_kick_list = kick_list,
                                                    .execution_guaranteed = 4,
                                                    .completion_guaranteed = 8,
                                                    .may_share = options.shared});
    EXPECT_TRUE(added);
  };
  for (std::uint32_t i = 0; i < options.lanes; ++i)
    add_lane(schedule::TvlPurpose::kCommands, options.kick_list);
  add_lane(schedule::TvlPurpose::kDedicated, options.dedicated_kick_list);
}

Level& Adapter::add_level(Tenant& tenant, const std::string& name, const TenantOptions& options) {
  const auto group = engine.pcbs().add_group({.tenant = tenant.id,
                                              .guaranteed = options.pcbs,
                                              .may_share = options.shared,
                                              .parent = tenant.qos_class});
  EXPECT_TRUE(group);
  Level& level = *tenant.levels.emplace_back(std::make_unique<Level>());
  level.name = name;
  level.qos_class = *group;
  add_lanes(tenant, level.qos_class, options);
  engine.add_level(level);
  return level;
}

Tenant& Adapter::add_tenant(const std::string& name, const Gid& gid, std::optional<PortId> port,
                            const TenantOptions& options) {
  const TenantId id(static_cast<std::uint16_t>(tenants.size()));
  tenants.push_back(std::make_unique<Tenant>());
  Tenant& tenant = *tenants.back();
  tenant.id = id;
  tenant.name = name;
  tenant.addresses.push_back({gid, port});
  const auto group = engine.pcbs().add_group(
      {.tenant = id, .guaranteed = options.pcbs, .may_share = options.shared});
  EXPECT_TRUE(group);
  tenant.qos_class = *group;
  add_lanes(tenant, tenant.qos_class, options);
  engine.add_tenant(tenant);
  return tenant;
}

void Adapter::add_port(std::unique_ptr<port::Port> port, const Gid& gid) {
  auto binding = std::make_unique<PortBinding>();
  binding->id = PortId(static_cast<std::uint8_t>(engine.ports().size()));
  binding->name = "wire";
  binding->port = std::move(port);
  port::Port* raw = binding->port.get();
  binding->neighbours = std::make_unique<neighbour::Neighbours>(
      neighbour::Neighbours::Options{.mac = raw->mac(), .vlan = {}},
      [raw](std::span<const std::byte> bytes) {
        port::Frame frame = raw->allocate();
        if (!frame) return;
        std::copy(bytes.begin(), bytes.end(), frame.data);
        frame.length = static_cast<std::uint32_t>(bytes.size());
        raw->transmit(frame);
      });
  binding->neighbours->add_address({gid, 24, true});
  engine.packets().add_port(std::move(binding));
}

void Adapter::expect_idle() {
  const auto expect_none = [&](QosClassId qos_class, const std::string& name) {
    const collect::CollectGroup& group = engine.pcbs().group(qos_class);
    EXPECT_EQ(group.pcbs.in_use.value(), 0u) << "PCBs of " << name;
    EXPECT_EQ(group.dedicated_in_use.value(), 0u) << "dedicated PCBs of " << name;
  };
  for (const auto& tenant : tenants) {
    expect_none(tenant->qos_class, "tenant " + tenant->name);
    for (const auto& level : tenant->levels) expect_none(level->qos_class, "level " + level->name);
  }
  EXPECT_EQ(engine.pcbs().quota().shared_in_use(), 0u);
  for (std::uint16_t i = 0; i < engine.tvls().size(); ++i) {
    const schedule::Tvl& tvl = engine.tvls()[TvlId(i)];
    EXPECT_EQ(tvl.execution.in_use.value(), 0u) << "execution credits of TVL " << i;
    EXPECT_EQ(tvl.completion.in_use.value(), 0u) << "completion credits of TVL " << i;
    EXPECT_EQ(engine.arbitrator().counters(TvlId(i)).waiting.value(), 0u) << "kick list " << i;
  }
  EXPECT_FALSE(engine.scheduler().has_work());
}

bool World::step(Duration tick) {
  now += tick;
  bool worked = false;
  for (const auto& adapter : adapters) worked |= adapter->engine.poll(now);
  return worked;
}

void World::leap(Time end) {
  if (step()) return;
  Time next = end;
  for (const auto& adapter : adapters) {
    // What is runnable and cannot go on tries again, which it need not do every microsecond.
    if (adapter->engine.has_runnable()) next = std::min(next, now + std::chrono::microseconds(4));
    next = std::min(next, adapter->engine.next_deadline());
  }
  if (next > now) now = next;
}

void World::run_for(Duration duration) {
  const Time end = now + duration;
  while (now < end) leap(end);
}

}  // namespace softhca::engine
