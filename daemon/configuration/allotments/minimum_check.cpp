#include "daemon/configuration/allotments/minimum_check.hpp"

#include <algorithm>
#include <span>

namespace softhca::configuration {
namespace {

std::string in_force(Allocation key, std::uint64_t amount) {
  return name_of(key) + " = " + std::to_string(amount);
}

std::optional<WrongMinimum> above_maximum(const std::string& who, Allocation key,
                                          std::uint64_t minimum, Allocation maximum_key,
                                          std::uint64_t maximum) {
  if (maximum == 0 || minimum <= maximum) return std::nullopt;
  return WrongMinimum{key,
                      who + in_force(key, minimum) + " is above " + in_force(maximum_key, maximum)};
}

/// Checks the TVLs of a level, or the tenant's TVLs that belong to no level. `all`: the minimum
/// rate of which theirs are a part.
std::optional<WrongMinimum> check_tvls(const std::string& who, std::span<const TvlConfig> tvls,
                                       std::uint64_t all) {
  std::uint64_t sum = 0;
  for (const TvlConfig& tvl : tvls) {
    if (auto wrong = above_maximum(who, Allocation::kTvlMinBytes, tvl.min_bytes_per_second,
                                   Allocation::kTvlBytes, tvl.bytes_per_second))
      return wrong;
    sum += tvl.min_bytes_per_second;
  }
  if (sum <= all) return std::nullopt;
  return WrongMinimum{Allocation::kTvlMinBytes,
                      who + name_of(Allocation::kTvlMinBytes) + " of its TVLs adds up to " +
                          std::to_string(sum) + ", more than " +
                          in_force(Allocation::kRateMinBytes, all) + " that they are part of"};
}

}  // namespace

std::optional<WrongMinimum> find_wrong_minimum(const TenantConfig& tenant) {
  const auto check_own = [](const std::string& who, const SentLimits& rate) {
    return above_maximum(who, Allocation::kRateMinBytes, rate.min_bytes_per_second,
                         Allocation::kRateBytes, rate.bytes_per_second);
  };
  const std::uint64_t all = tenant.rates.sent.min_bytes_per_second;
  if (auto wrong = check_own("", tenant.rates.sent)) return wrong;
  std::span<const TvlConfig> tvls(tenant.tvls);
  std::uint64_t sum = 0;
  for (const LevelConfig& level : tenant.levels) {
    const std::string who = "level " + level.name + ": ";
    if (auto wrong = check_own(who, level.rates.sent)) return wrong;
    sum += level.rates.sent.min_bytes_per_second;
    if (sum > all)
      return WrongMinimum{Allocation::kRateMinBytes,
                          who + "with it " + name_of(Allocation::kRateMinBytes) +
                              " of the levels adds up to " + std::to_string(sum) +
                              ", more than the tenant's " + std::to_string(all) +
                              " that they are part of"};
    const std::size_t own = std::min<std::size_t>(level.tvls, tvls.size());
    if (auto wrong = check_tvls(who, tvls.first(own), level.rates.sent.min_bytes_per_second))
      return wrong;
    tvls = tvls.subspan(own);
  }
  return check_tvls("", tvls, all);
}

}  // namespace softhca::configuration
