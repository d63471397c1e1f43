// SPDX-License-Identifier: Apache-2.0

// The parameters of `fault.add` of the admin socket, and how faults are shown.
#pragma once

#include <optional>

#include "daemon/base/expected.hpp"
#include "daemon/engine/diagnostics/faults.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

/// Returns the kind with this name. Nothing: unknown name.
std::optional<engine::FaultKind> fault_kind(std::string_view name);
/// True if the fault happens only to packets at a port, not to messages that stay inside the
/// daemon.
constexpr bool needs_port(engine::FaultKind kind) {
  return kind != engine::FaultKind::kDrop && kind != engine::FaultKind::kRnr;
}
/// True if the fault can hold back packets, or copies of them.
constexpr bool needs_room(engine::FaultKind kind) {
  return needs_port(kind) && kind != engine::FaultKind::kCorrupt &&
         kind != engine::FaultKind::kMark;
}

/// Reads all parameters but tenant and port, and checks their bounds. Throws what Json throws on a
/// value of another type.
Expected<engine::FaultTerms> fault_terms(const Json& params, Time now);
/// Returns the terms of a fault, and how often it happened.
Json to_json(const engine::Fault& fault, Time now);
/// Returns the chance of a fault, for the operator: "one of 10", "with probability 0.1".
std::string chance_text(const engine::FaultTerms& terms);

}  // namespace softhca::control
