// SPDX-License-Identifier: Apache-2.0

// What a reload would do: the differences between the configuration in effect and a new one, each
// with a name, and whether it can be made while the daemon runs. The functions are pure: they
// change nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/configuration/config.hpp"

namespace softhca::configuration {

/// One key that changes, or one tenant, port or peer that is added or removed (then `key` is
/// empty).
struct Difference {
  enum class Kind : std::uint8_t { kChanged, kAdded, kRemoved };

  Kind kind = Kind::kChanged;
  std::string section;               ///< "daemon", "pools", "tenant", "port", "peer", ...
  std::string name;                  ///< of the tenant, port or peer; empty for other sections
  std::optional<std::uint32_t> tvl;  ///< of the tenant, counted from 0
  std::string key;                   ///< as in the file: "vcbs", "socket.mode"
  std::string from, to;              ///< as the operator would write them
  std::string refusal;               ///< why it needs a restart; empty: it does not

  bool is_live() const { return refusal.empty(); }
  /// Returns "tenant ocean: vcbs 1024 -> 512", with the refusal if there is one.
  std::string text() const;

  bool operator==(const Difference&) const = default;
};

struct ReloadPlan {
  std::vector<Difference> differences;  ///< in the order of the file's sections

  /// True if both configurations are the same.
  bool empty() const { return differences.empty(); }
  /// True if no difference is refused. If one is, none is made.
  bool is_live() const;
  /// Return the texts of the refused differences, or of all.
  std::vector<std::string> refusals() const;
  std::vector<std::string> texts() const;
  /// Returns "2 changes made", for use after the reload.
  std::string summary() const;
};

/// Compares two configurations. REQUIRES: both have been checked, each on its own. Tenants are
/// identified by name, so their order makes no difference.
ReloadPlan plan_reload(const Config& in_force, const Config& wanted);

}  // namespace softhca::configuration
