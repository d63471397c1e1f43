// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/resource_manager/minimum_check.hpp"

namespace softhca::configuration {
namespace {

std::string in_force(LiveSetting key, std::uint64_t amount) {
  return name_of(key) + " = " + std::to_string(amount);
}

std::optional<WrongMinimum> above_maximum(const std::string& who, LiveSetting key,
                                          std::uint64_t minimum, LiveSetting maximum_key,
                                          std::uint64_t maximum) {
  if (maximum == 0 || minimum <= maximum) return std::nullopt;
  return WrongMinimum{key,
                      who + in_force(key, minimum) + " is above " + in_force(maximum_key, maximum)};
}

}  // namespace

std::optional<WrongMinimum> find_wrong_minimum(const TenantConfig& tenant) {
  const auto check_own = [](const std::string& who, const SentLimits& rate) {
    return above_maximum(who, LiveSetting::kRateMinBytes, rate.min_bytes_per_second,
                         LiveSetting::kRateBytes, rate.bytes_per_second);
  };
  const std::uint64_t all = tenant.rates.sent.min_bytes_per_second;
  if (auto wrong = check_own("", tenant.rates.sent)) return wrong;
  std::uint64_t sum = 0;
  for (const LevelConfig& level : tenant.levels) {
    const std::string who = "level " + level.name + ": ";
    if (auto wrong = check_own(who, level.rates.sent)) return wrong;
    sum += level.rates.sent.min_bytes_per_second;
    if (sum > all)
      return WrongMinimum{LiveSetting::kRateMinBytes,
                          who + "up to this level, " + name_of(LiveSetting::kRateMinBytes) +
                              " of the levels adds up to " + std::to_string(sum) +
                              ", but the tenant has " + std::to_string(all) +
                              "; lower a level or raise the tenant's"};
  }
  return std::nullopt;
}

std::string find_wrong_region(const TenantConfig& tenant) {
  constexpr std::uint64_t kUnit = 16 << 20;  // a guest's kernel makes a device only of whole ones
  const std::uint64_t most = tenant.limits[Kind::kSharedBytes];
  const std::string is = "is " + std::to_string(tenant.programs.guest_memory) + ", ";
  if (tenant.programs.guest_memory % kUnit != 0) return is + "must be a multiple of 16 MiB";
  if (tenant.programs.guest_memory > most)
    return is + "above its shared_bytes, " + std::to_string(most);
  return {};
}

}  // namespace softhca::configuration
