// SPDX-License-Identifier: Apache-2.0

// A level of a tenant (mechanism A3). All members except `control` belong to the engine: only its
// thread, or a request to it, changes them.
#pragma once

#include <string>

#include "daemon/base/types.hpp"
#include "daemon/engine/records/counters.hpp"
#include "daemon/engine/records/path_rules.hpp"
#include "daemon/engine/records/rate_gate.hpp"
#include "daemon/engine/records/tenant_control.hpp"
#include "daemon/roce/wire/marking.hpp"

namespace softhca::engine {

/// A named part of a tenant's allocation, for some of its processes and queue pairs.
struct Level {
  QosClassId qos_class;
  std::string name;
  bool is_default = false;  ///< for processes that no rule assigns to another
  Marking marking;          ///< marking of its packets; overrides the tenant's
  PathRules rules;          ///< the operator's rules for its queue pairs
  PathRules own_rules;      ///< the tenant's rules for its queue pairs
  RateGate rate;
  PeerGates peer_rates;
  LevelCounters counters;
  LevelControl control;
};

}  // namespace softhca::engine
