// SPDX-License-Identifier: Apache-2.0

// Address vectors and address handles of a session.
#pragma once

#include <unordered_map>

#include "daemon/base/handle_table.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/pd_objects.hpp"
#include "daemon/engine/records/route.hpp"

namespace softhca::control {

/// Reads an address vector. Returns 0, or EINVAL if this device cannot use it.
int path_of(const SessionContext& context, const abi::AddressVector& av, engine::AddressPath& out);
/// Return a path for its record, and the path that an earlier adapter has recorded.
record::Path recorded(const engine::AddressPath& path);
engine::AddressPath path_of(const SessionContext& context, const record::Path& kept);

class AhObjects {
 public:
  AhObjects(const SessionContext& context, const PdObjects& pds) : context_(context), pds_(pds) {}
  /// Removes all address handles from the engine.
  ~AhObjects() { end(Turn::endless()); }
  AhObjects(const AhObjects&) = delete;
  AhObjects& operator=(const AhObjects&) = delete;

  /// Continues the end of the session. Returns true if none is left, false if the turn is over.
  bool end(const Turn& turn);

  std::uint32_t size() const { return ahs_.size(); }

  bool restore(const record::AddressHandle& kept, records::Record record);

  int create(const RequestBody& body, Reply& reply);
  int destroy(const RequestBody& body, Reply& reply);

 private:
  struct Ah {
    records::Record record;
    configuration::Charge charge;
    engine::AddressHandle engine;
    PdUse pd;
    std::uint32_t handle = 0;  ///< the engine's handle
  };

  const SessionContext& context_;
  const PdObjects& pds_;
  HandleTable<Ah> ahs_;
  /// From the engine's handles to those of `ahs_`.
  std::unordered_map<std::uint32_t, std::uint32_t> handles_;
};

}  // namespace softhca::control
