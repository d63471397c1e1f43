// SPDX-License-Identifier: Apache-2.0

// Memory windows of a session.
#pragma once

#include "daemon/base/handle_table.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/pd_objects.hpp"

namespace softhca::control {

class MwObjects {
 public:
  MwObjects(const SessionContext& context, const PdObjects& pds) : context_(context), pds_(pds) {}
  /// Removes all windows from the engine.
  ~MwObjects() { end(Turn::endless()); }
  MwObjects(const MwObjects&) = delete;
  MwObjects& operator=(const MwObjects&) = delete;

  /// Continues the end of the session. Returns true if none is left, false if the turn is over.
  bool end(const Turn& turn);

  bool restore(const record::MemoryWindow& kept, records::Record record);

  int alloc(const RequestBody& body, Reply& reply);
  int dealloc(const RequestBody& body, Reply& reply);

 private:
  struct Window {
    records::Record record;
    configuration::Charge charge;
    std::uint32_t key = 0;  ///< the first key; its low 8 bits change
    PdUse pd;
  };

  const SessionContext& context_;
  const PdObjects& pds_;
  HandleTable<Window> windows_;
};

}  // namespace softhca::control
