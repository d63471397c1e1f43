// A shared receive queue as the engine sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/types.hpp"
#include "daemon/engine/completion_queue.hpp"
#include "daemon/memory/key_table.hpp"
#include "daemon/receive/provisioner.hpp"
#include "daemon/receive/queue_level.hpp"
#include "daemon/receive/top_drawers.hpp"
#include "daemon/shm/receive_ring.hpp"

namespace softhca::engine {

/// A domain of extended reliable connected service (XRC); unique in the adapter, 0 is none.
using XrcDomainId = Id<struct XrcDomainTag, std::uint32_t>;

struct SharedReceiveQueue {
  Session* session = nullptr;
  ListLink<SharedReceiveQueue> of_session;  ///< in Session::receive_queues
  shm::ReceiveRing ring;
  std::uint64_t user_handle = 0;
  memory::PdId pd;
  receive::QueueLevel level;  ///< with the limit event that its program armed
  receive::TopDrawers drawers;
  std::uint64_t empty = 0;         ///< times a message found no receive
  std::uint32_t droughts = 1;      ///< times it had none, and one that is to come
  std::uint32_t waiting = 0;       ///< queue pairs that found none in this drought
  std::uint32_t most_waiting = 0;  ///< in any of them
  std::uint32_t users = 0;         ///< queue pairs
  bool failed = false;
  bool retired = false;           ///< it is going, and no request of XRC finds it any more
  std::uint32_t place = 0;        ///< among all of them
  std::uint32_t number = 0;       ///< names it in reports and to peers of XRC, 24 bits
  XrcDomainId xrc_domain;         ///< none: not of XRC
  CompletionQueue* cq = nullptr;  ///< XRC: where its receives complete
  std::unique_ptr<receive::Provisioner> provisioner;  ///< none: no limit
  std::uint32_t accounted = 0;  ///< posts the provisioner knows of, a counter of the ring
};

/// Provisioners for shared receive queues that have none.
using Provisioners =
    std::vector<std::pair<SharedReceiveQueue*, std::unique_ptr<receive::Provisioner>>>;

}  // namespace softhca::engine
