// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/session/vcb_grant.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "abi/session.hpp"
#include "daemon/qos/collect/function_table.hpp"

namespace softhca::control {

VcbBounds vcb_bounds(const configuration::TenantConfig& tenant) {
  const std::uint32_t base = std::min(tenant.vcbs_per_process, abi::kMaxVcbsPerSession);
  if (base == 0) return {0, 0};  // doorbells only
  return {base, abi::kMaxVcbsPerSession};
}

void VcbGrant::open(engine::Level* level, std::uint32_t wanted) {
  level_ = level;
  collect::FunctionTable& functions = adapter_.engine.functions;
  const auto first = functions.find_unassigned(abi::kMaxVcbsPerSession);
  if (!first) return;
  first_ = *first;
  places_ = abi::kMaxVcbsPerSession;
  [[maybe_unused]] const auto assigned = functions.assign(
      first_, places_, tenant_.id, level != nullptr ? level->qos_class : tenant_.qos_class);
  assert(assigned);  // just found free
  take(wanted, true);
  (level != nullptr ? level->control.vcbs_refused : tenant_.control.vcbs_refused)
      .add(wanted - count_);
}

void VcbGrant::close() {
  put(0);
  if (places_ == 0) return;
  [[maybe_unused]] const auto released =
      adapter_.engine.functions.release(first_, std::exchange(places_, 0));
  assert(released);  // the engine has dropped them
}

std::uint32_t VcbGrant::wanted(std::uint64_t missed, VcbBounds bounds) {
  const std::uint64_t lately = missed - std::exchange(missed_, missed);
  const std::uint32_t most = std::min(bounds.most, places_);
  const std::uint32_t base = std::min(bounds.base, places_);
  if (lately > count_) {  // more than a burst now and then
    quiet_ = 0;
    return std::clamp(2 * count_, base, most);
  }
  quiet_ = lately == 0 ? quiet_ + 1 : 0;
  if (quiet_ < kQuietLooks || count_ <= base) return std::clamp(count_, base, most);
  quiet_ = 0;
  return std::min(base + (count_ - base) / 2, most);
}

bool VcbGrant::draws_shared() const {
  return tenant_.control.vcbs.shared_in_use() != 0 &&
         (level_ == nullptr || level_->control.vcbs.shared_in_use() != 0);
}

bool VcbGrant::is_guaranteed_more() const {
  return tenant_.control.vcbs.below_guarantee() ||
         (level_ != nullptr && level_->control.vcbs.below_guarantee());
}

void VcbGrant::take(std::uint32_t count, bool shared) {
  count = std::min(count, places_);
  while (count_ < count && (shared || is_guaranteed_more()) && adapter_.take_vcb(tenant_, level_))
    ++count_;
}

void VcbGrant::put(std::uint32_t count) {
  for (; count_ > count; --count_) adapter_.put_vcb(tenant_, level_);
}

}  // namespace softhca::control
