// What `fault.add` of the admin socket is asked for, and how faults are shown.
#pragma once

#include <optional>

#include "daemon/base/expected.hpp"
#include "daemon/control/admin/admin_methods.hpp"
#include "daemon/engine/faults.hpp"

namespace softhca::control {

/// Nothing: there is no such kind.
std::optional<engine::FaultKind> fault_kind(std::string_view name);
/// Does it happen to packets alone, and not to messages that stay inside the daemon?
constexpr bool needs_port(engine::FaultKind kind) {
  return kind != engine::FaultKind::kDrop && kind != engine::FaultKind::kRnr;
}
/// Can it hold packets, or copies of them?
constexpr bool needs_room(engine::FaultKind kind) {
  return needs_port(kind) && kind != engine::FaultKind::kCorrupt;
}

/// Everything but tenant and port, all within bounds. Throws what Json throws on a value of another
/// type.
Expected<engine::FaultTerms> fault_terms(const Json& params, Time now);
/// The same, and what became of it.
Json to_json(const engine::Fault& fault, Time now);
/// For people: "every 10th", "with probability 0.1".
std::string chance_text(const engine::FaultTerms& terms);

}  // namespace softhca::control
