// SPDX-License-Identifier: Apache-2.0

// A shared receive queue as the engine sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/types.hpp"
#include "daemon/engine/records/completion_queue.hpp"
#include "daemon/qos/receive/low_watermark.hpp"
#include "daemon/qos/receive/provisioner.hpp"
#include "daemon/qos/receive/top_drawers.hpp"
#include "daemon/tenant_memory/key_table.hpp"
#include "daemon/tenant_memory/receive_ring.hpp"

namespace softhca::engine {

/// A domain of the extended reliable connected service (XRC). Ids are unique in the adapter; 0 is
/// none.
using XrcDomainId = Id<struct XrcDomainTag, std::uint32_t>;

struct SharedReceiveQueue {
  Session* session = nullptr;
  ListLink<SharedReceiveQueue> of_session;  ///< in Session::receive_queues
  shm::ReceiveRing ring;
  std::uint64_t user_handle = 0;
  memory::PdId pd;
  receive::LowWatermark level;  ///< including the limit that its program armed
  receive::TopDrawers drawers;
  std::uint64_t empty = 0;         ///< times a message found no receive
  std::uint32_t droughts = 1;      ///< starvations so far, plus one
  std::uint32_t waiting = 0;       ///< queue pairs that found it empty in this starvation
  std::uint32_t most_waiting = 0;  ///< maximum of `waiting`
  std::uint32_t users = 0;         ///< queue pairs
  bool failed = false;
  bool retired = false;           ///< being destroyed: XRC requests no longer find it
  std::uint32_t place = 0;        ///< index among all shared receive queues
  std::uint32_t number = 0;       ///< identifies it in reports and to XRC peers, 24 bits
  XrcDomainId xrc_domain;         ///< 0: not of XRC
  CompletionQueue* cq = nullptr;  ///< XRC: completion queue of its receives
  std::unique_ptr<receive::Provisioner> provisioner;  ///< null: no limit
  std::uint32_t accounted = 0;  ///< posts that the provisioner knows, a counter of the ring
};

/// Provisioners for shared receive queues that have none.
using Provisioners =
    std::vector<std::pair<SharedReceiveQueue*, std::unique_ptr<receive::Provisioner>>>;

}  // namespace softhca::engine
