// Do the levels of a tenant fit in it and together?
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/resource/config.hpp"
#include "daemon/resource/reader.hpp"

namespace softhca::resource {

/// The levels of a tenant that only asks for some: `low`, the default level, and `high`. Each has
/// half of the TVLs and is guaranteed a quarter of the VCBs and PCBs; the rest is for both. TVLs of
/// `high` have the tenant's weight, those of `low` a quarter of it. REQUIRES: the amounts of the
/// tenant are read; it has no levels and two TVLs or more.
void add_default_levels(TenantConfig& tenant);

class LevelsCheck {
 public:
  /// `tenant` is being read: its own amounts are known, its levels are added to it one by one.
  /// `path`: "tenant.level" or "template.level".
  LevelsCheck(TenantConfig& tenant, std::string path, Problems& problems)
      : tenant_(tenant), path_(std::move(path)), problems_(problems) {}

  /// The last level of the tenant was read from `table`.
  void add(const Value& table);
  /// All levels are read. If none says that it is the default level, the first one is.
  void finish();

 private:
  void complain(const Value& table, std::string_view key, const std::string& text);
  void check_name(const Value& table);
  void check_amount(const Value& table, std::string_view key, std::uint32_t asked,
                    std::uint32_t total, std::uint32_t& divided);
  void check_tvls(const Value& table, const LevelConfig& level);
  /// Is what says which queue pairs are the level's no earlier level's?
  void check_paths(const Value& table, const LevelConfig& level);

  TenantConfig& tenant_;
  std::string path_;
  Problems& problems_;
  std::uint32_t vcbs_ = 0;  // divided so far
  std::uint32_t pcbs_ = 0;
  std::size_t tvls_ = 0;
  const Value* needs_undivided_ = nullptr;  // the first level without TVLs of its own
};

}  // namespace softhca::resource
