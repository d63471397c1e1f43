// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/level_assignment.hpp"

#include <cassert>

namespace softhca::engine {
namespace {

template <class Fits>
Level* first_of(const Tenant& tenant, Fits&& fits) {
  for (const auto& level : tenant.levels)
    if (fits(*level)) return level.get();
  return nullptr;
}

}  // namespace

Level* find_level(const Tenant& tenant, const AddressPath& path) {
  for (PathRules Level::*const rules : {&Level::rules, &Level::own_rules}) {
    if (Level* level = first_of(tenant, [&](const Level& each) {
          return (each.*rules).has_traffic_class(path.traffic_class);
        }))
      return level;
    if (Level* level = first_of(tenant, [&](const Level& each) {
          return (each.*rules).has_service_level(path.service_level);
        }))
      return level;
  }
  return nullptr;
}

void LevelAssignment::join(QueuePair& qp) {
  qp.qos_class = qp.session->qos_class;
  tvls_.join(qp);
}

void LevelAssignment::assign(QueuePair& qp) {
  if (!qp.sends() || qp.type == QpType::kUd) return;
  const Level* const level = find_level(*qp.tenant, qp.connection.route.path);
  if (level == nullptr) return restore(qp);
  move(qp, level->qos_class);
}

void LevelAssignment::restore(QueuePair& qp) { move(qp, qp.session->qos_class); }

/// Moves the queue pair to another class. Work that it has is done in turns of the new class.
void LevelAssignment::move(QueuePair& qp, QosClassId to) {
  if (qp.qos_class == to) return;
  assert(qp.sq.commands == 0);
  const auto count = [&](auto&& change_level, std::uint32_t one) {
    if (qp.qos_class == qp.session->qos_class) return;
    Level& level = *level_of(qp);
    change_level(level.counters.assigned_queue_pairs);
    qp.session->count_elsewhere(level, one);
  };
  count([](Gauge& gauge) { gauge.subtract(); }, std::uint32_t(-1));
  const bool has_work = cpu_.order().contains(qp.slot);
  cpu_.remove(qp);
  tvls_.leave(qp);
  qp.qos_class = to;
  cpu_.order().join(to, qp.tenant->id);
  tvls_.join(qp);
  pcbs_.recall(to);
  if (has_work) cpu_.make_ready(qp);
  count([](Gauge& gauge) { gauge.add(); }, 1);
}

}  // namespace softhca::engine
