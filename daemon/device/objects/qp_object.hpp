// SPDX-License-Identifier: Apache-2.0

// A queue pair of a process or, for an XRC target, of the processes that hold it open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "abi/control.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/pd_object.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/requests/queue_pair_requests.hpp"

namespace softhca::control {

/// Memory of one or two rings.
struct Ring {
  abi::RingLocation location{};
  std::byte* base = nullptr;
  configuration::Charge bytes;
};

struct QpObject {
  records::Record record;
  record::SessionKey maker = 0;  ///< in the record
  configuration::Charge charge;
  configuration::Charge reads;  ///< memory to keep the reads and atomics of its peer
  PdUse pd;                     ///< an XRC target has none
  engine::QueuePair engine;
  abi::CreateQpRequest request{};
  Ring ring;                       ///< both rings; an XRC target has none
  abi::QpAttributes attributes{};  ///< `mask`: those that were set since RESET
  std::optional<engine::AddressPath> path{};
  std::unique_ptr<record::QueuePairTerms> terms{};  ///< null: the operator has set none
  std::vector<Gid> groups{};                        ///< of multicast, as the engine has them
  std::uint32_t holders = 1;                        ///< holds by processes that made or opened it
  engine::SendWait waited;                          ///< by the current request
};

}  // namespace softhca::control
