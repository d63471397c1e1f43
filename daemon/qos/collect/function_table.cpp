// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/collect/function_table.hpp"

#include <cerrno>
#include <string>

namespace softhca::collect {
namespace {

std::string range(VcbId bar, std::uint32_t count) {
  return "VCBs " + std::to_string(bar.value) + "+" + std::to_string(count);
}

}  // namespace

Outcome FunctionTable::assign(VcbId bar, std::uint32_t count, TenantId tenant,
                              QosClassId qos_class) {
  assert(qos_class != kNoQosClass);
  if (!in_table(bar, count))
    return Error{range(bar, count) + " leave the table of " + std::to_string(size()), EINVAL};
  for (std::uint32_t i = bar.value; i < bar.value + count; ++i)
    if (entries_[i].assigned())
      return Error{range(bar, count) + ": VCB " + std::to_string(i) + " belongs to tenant " +
                       std::to_string(entries_[i].tenant.value) + " already",
                   EBUSY};
  for (std::uint32_t i = bar.value; i < bar.value + count; ++i)
    entries_[i] = {.pcb = kNoPcb, .qos_class = qos_class, .tenant = tenant};
  assigned_ += count;
  return {};
}

Outcome FunctionTable::release(VcbId bar, std::uint32_t count) {
  if (!in_table(bar, count))
    return Error{range(bar, count) + " leave the table of " + std::to_string(size()), EINVAL};
  for (std::uint32_t i = bar.value; i < bar.value + count; ++i)
    if (entries_[i].pcb != kNoPcb)
      return Error{range(bar, count) + ": VCB " + std::to_string(i) + " is bound to PCB " +
                       std::to_string(entries_[i].pcb.value),
                   EBUSY};
  for (std::uint32_t i = bar.value; i < bar.value + count; ++i) {
    if (entries_[i].assigned()) --assigned_;
    entries_[i] = Entry{};
  }
  return {};
}

std::optional<VcbId> FunctionTable::find_unassigned(std::uint32_t count) const {
  std::uint32_t run = 0;
  for (std::uint32_t i = 0; i < size(); ++i) {
    run = entries_[i].assigned() ? 0 : run + 1;
    if (run == count) return VcbId(i + 1 - count);
  }
  return std::nullopt;
}

}  // namespace softhca::collect
