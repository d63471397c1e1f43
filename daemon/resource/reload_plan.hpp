// What a reload would do: the differences between the configuration in force and a new one, each
// with a name, and whether it can be made while the daemon runs. Pure: nothing is changed here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/resource/config.hpp"

namespace softhca::resource {

/// One key that changes, or one tenant, port or peer that comes or goes (then `key` is empty).
struct Difference {
  enum class Kind : std::uint8_t { kChanged, kAdded, kRemoved };

  Kind kind = Kind::kChanged;
  std::string section;               ///< "daemon", "pools", "tenant", "port", "peer", ...
  std::string name;                  ///< of the tenant, port or peer; empty for other sections
  std::optional<std::uint32_t> tvl;  ///< of the tenant, counted from 0
  std::string key;                   ///< as in the file: "vcbs", "socket.mode"
  std::string from, to;              ///< as the operator would write them
  std::string refusal;               ///< why it cannot be made live; empty: it can

  bool is_live() const { return refusal.empty(); }
  /// "tenant ocean: vcbs 1024 -> 512", with the refusal where there is one.
  std::string text() const;

  bool operator==(const Difference&) const = default;
};

struct ReloadPlan {
  std::vector<Difference> differences;  ///< in the order of the file's sections

  /// The new configuration says what the old one said.
  bool empty() const { return differences.empty(); }
  /// Nothing is refused: all of it can be made, or else none of it is.
  bool is_live() const;
  /// The texts of what is refused, or of all.
  std::vector<std::string> refusals() const;
  std::vector<std::string> texts() const;
  /// "2 changes made", once it is.
  std::string summary() const;
};

/// Both have been checked, each for itself. Tenants are known by their names, so that their order
/// makes no difference.
ReloadPlan plan_reload(const Config& in_force, const Config& wanted);

}  // namespace softhca::resource
