// SPDX-License-Identifier: Apache-2.0

// Underlying function table: the underlying function (tenant) and the collect group of each VCB
// (mechanism C6), and the PCB that it is bound to.
//
// Two threads use it. The control thread assigns the VCBs of a session before it installs the
// session in the engine, and releases them after it has removed the session. The engine uses only
// the entries of installed sessions, and writes only their PCB.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/types.hpp"
#include "daemon/qos/collect/pcb.hpp"

namespace softhca::collect {

class FunctionTable {
 public:
  /// VCBs 0..vcbs-1, none assigned. Allocates; set-up only.
  explicit FunctionTable(std::uint32_t vcbs) : entries_(vcbs) {}

  struct Entry {
    PcbId pcb = kNoPcb;  ///< bound PCB, kNoPcb: none
    QosClassId qos_class = kNoQosClass;
    TenantId tenant;

    bool assigned() const { return qos_class != kNoQosClass; }
  };

  /// Assigns the VCBs from `bar` on to a function, or to one of its sessions out of the shared
  /// part. Errors: the range exceeds the table (EINVAL); a VCB is assigned already (EBUSY).
  Outcome assign(VcbId bar, std::uint32_t count, TenantId tenant, QosClassId qos_class);
  /// Takes VCBs back. Errors: the range exceeds the table (EINVAL); a VCB is bound (EBUSY).
  Outcome release(VcbId bar, std::uint32_t count);

  /// Returns the lowest run of `count` unassigned VCBs. Linear search; set-up only.
  std::optional<VcbId> find_unassigned(std::uint32_t count) const;

  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  std::uint32_t unassigned() const { return size() - assigned_; }

  Entry& operator[](VcbId id) {
    assert(id.value < entries_.size());
    return entries_[id.value];
  }
  const Entry& operator[](VcbId id) const {
    assert(id.value < entries_.size());
    return entries_[id.value];
  }

 private:
  bool in_table(VcbId bar, std::uint32_t count) const {
    return bar.value <= size() && count <= size() - bar.value;
  }

  std::vector<Entry> entries_;
  std::uint32_t assigned_ = 0;
};

}  // namespace softhca::collect
