#include "daemon/resource/allocation.hpp"

#include <algorithm>

namespace softhca::resource {
namespace {

constexpr std::uint64_t kMostOfAny = 1u << 20;  // as the configuration has it
constexpr std::uint64_t kMostTvls = 64;         // likewise, of a tenant
constexpr std::uint64_t kMostOfRate = std::uint64_t{1} << 50;
constexpr std::uint64_t kMostBuffers = 65536;

constexpr std::array<std::string_view, 2> kLimitKinds = {"soft", "hard"};
constexpr std::array<std::string_view, 4> kExceeds = {"raise", "replenish", "drop-message",
                                                      "drop-connection"};

enum class Holder : std::uint8_t { kTenant, kLevelToo, kTvl };

struct Setting {
  const char* name;
  Range range;
  Holder holder = Holder::kTenant;
  ValueForm form = ValueForm::kNumber;
};

/// In the order of the enumeration.
constexpr std::array<Setting, static_cast<std::size_t>(Allocation::kFirstConnections)> kSettings = {
    {
        {"vcbs", {0, kMostOfAny}, Holder::kLevelToo},
        {"pcbs", {0, kMostOfAny}, Holder::kLevelToo},
        {"tvls", {0, kMostTvls}, Holder::kLevelToo},
        {"shared", {0, 1}, Holder::kLevelToo, ValueForm::kYesNo},
        {"vcbs_per_process", {0, kMaxVcbsPerProcess}},
        {"execution_credits", {0, kMostOfAny}, Holder::kTvl},
        {"completion_credits", {0, kMostOfAny}, Holder::kTvl},
        {"kick_list", {1, kMostOfAny}, Holder::kTvl},
        {"weight", {1, kMaxTvlWeight}, Holder::kTvl},
        {"rate.bytes_per_second", {0, kMostOfRate}},
        {"rate.burst_bytes", {1, kMostOfRate}},
        {"rate.messages_per_second", {0, kMostOfRate}},
        {"rate.burst_messages", {1, kMostOfRate}},
        {"srq.limit", {0, kMostBuffers}},
        {"srq.kind", {0, kLimitKinds.size() - 1}, Holder::kTenant, ValueForm::kWord},
        {"srq.on_exceed", {0, kExceeds.size() - 1}, Holder::kTenant, ValueForm::kWord},
        {"srq.statistical", {0, 1}, Holder::kTenant, ValueForm::kYesNo},
        {"srq.overcommit", {1000, 1'000'000}, Holder::kTenant, ValueForm::kFactor},
        {"srq.watermark", {0, kMostBuffers}},
    }};

bool is_limit(Allocation allocation) { return allocation >= Allocation::kFirstLimit; }
Kind kind_of(Allocation allocation) {
  return static_cast<Kind>(static_cast<std::size_t>(allocation) -
                           static_cast<std::size_t>(Allocation::kFirstLimit));
}
/// Null: it is none.
const ConnectionsKey* connections_key(Allocation allocation) {
  if (allocation < Allocation::kFirstConnections || is_limit(allocation)) return nullptr;
  return &kConnectionsKeys[static_cast<std::size_t>(allocation) -
                           static_cast<std::size_t>(Allocation::kFirstConnections)];
}
/// Of what is neither.
const Setting* setting(Allocation allocation) {
  if (allocation >= Allocation::kFirstConnections) return nullptr;
  return &kSettings[static_cast<std::size_t>(allocation)];
}

}  // namespace

const char* name_of(Allocation allocation) {
  if (const ConnectionsKey* key = connections_key(allocation)) return key->name;
  return is_limit(allocation) ? name_of(kind_of(allocation)) : setting(allocation)->name;
}

std::optional<Allocation> allocation_of(std::string_view name) {
  for (std::size_t i = 0; i < kAllocations; ++i)
    if (name == name_of(static_cast<Allocation>(i))) return static_cast<Allocation>(i);
  return std::nullopt;
}

ValueForm form_of(Allocation allocation) {
  const Setting* own = setting(allocation);
  return own != nullptr ? own->form : ValueForm::kNumber;
}

std::span<const std::string_view> words_of(Allocation allocation) {
  if (allocation == Allocation::kSrqKind) return kLimitKinds;
  if (allocation == Allocation::kSrqOnExceed) return kExceeds;
  return {};
}

Range range_of(Allocation allocation, const PoolsConfig& pools) {
  if (is_limit(allocation)) return {0, totals_of(pools)[kind_of(allocation)]};
  if (const ConnectionsKey* key = connections_key(allocation)) return {key->least, key->most};
  return setting(allocation)->range;
}

bool is_of_tvl(Allocation allocation) {
  const Setting* own = setting(allocation);
  return own != nullptr && own->holder == Holder::kTvl;
}
bool is_of_level(Allocation allocation) {
  const Setting* own = setting(allocation);
  return own != nullptr && own->holder != Holder::kTenant;
}

void set(TvlConfig& tvl, Allocation allocation, std::uint64_t value) {
  const auto amount = static_cast<std::uint32_t>(value);
  if (allocation == Allocation::kExecutionCredits) tvl.execution_credits = amount;
  if (allocation == Allocation::kCompletionCredits) tvl.completion_credits = amount;
  if (allocation == Allocation::kKickList) tvl.kick_list = amount;
  if (allocation == Allocation::kWeight) tvl.weight = amount;
}

void set(TenantConfig& tenant, Allocation allocation, std::uint64_t amount) {
  if (is_limit(allocation)) {
    tenant.limits[kind_of(allocation)] = amount;
    return;
  }
  const auto number = static_cast<std::uint32_t>(amount);
  if (const ConnectionsKey* key = connections_key(allocation)) {
    tenant.connections.*key->member = number;
    return;
  }
  switch (allocation) {
    case Allocation::kShared:
      tenant.shared = amount != 0;
      break;
    case Allocation::kVcbsPerProcess:
      tenant.vcbs_per_process = number;
      break;
    case Allocation::kRateBytes:
      tenant.rate.bytes_per_second = amount;
      break;
    case Allocation::kRateBurstBytes:
      tenant.rate.burst_bytes = amount;
      break;
    case Allocation::kRateMessages:
      tenant.rate.messages_per_second = amount;
      break;
    case Allocation::kRateBurstMessages:
      tenant.rate.burst_messages = amount;
      break;
    case Allocation::kSrqLimit:
      tenant.srq.limits.fill(number);
      break;
    case Allocation::kSrqKind:
      tenant.srq.kind = static_cast<SrqLimitKind>(amount);
      break;
    case Allocation::kSrqOnExceed:
      tenant.srq.on_exceed = static_cast<SrqExceed>(amount);
      break;
    case Allocation::kSrqStatistical:
      tenant.srq.statistical = amount != 0;
      break;
    case Allocation::kSrqOvercommit:
      tenant.srq.overcommit = static_cast<double>(amount) / 1000;
      break;
    case Allocation::kSrqWatermark:
      tenant.srq.watermark = number;
      break;
    default:  // divided among levels, or of a TVL: not set so
      break;
  }
}

}  // namespace softhca::resource
