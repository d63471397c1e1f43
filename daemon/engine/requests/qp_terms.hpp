// SPDX-License-Identifier: Apache-2.0

// Requests that set the terms of one queue pair: its rates, and its limit and importance on its
// shared receive queue.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/types.hpp"
#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/engine/records/rate_gate.hpp"
#include "daemon/qos/pools/rate_limits.hpp"
#include "daemon/qos/receive/provisioner.hpp"

namespace softhca::engine {

class Engine;
struct QueuePair;
struct SharedReceiveQueue;

/// Sets the rates of a queue pair. They take effect with its next command and its peer's next
/// packet. Does nothing if the queue pair is gone.
struct SetQpRates {
  Qpn qpn;
  SentLimits sent;  ///< with its minimum rate
  InboundLimits inbound;
  ServedLimits served;
  std::unique_ptr<QpRates> made;  ///< taken if the queue pair has no rates yet
  void run(Engine& engine);
};

/// The shared receive queue of a queue pair.
struct SrqOfQp {
  SharedReceiveQueue* srq = nullptr;  ///< null: none
  std::uint32_t entries = 0;
  bool provisioned = false;
};

/// Returns the shared receive queue of a queue pair. An XRC target may have another one by its next
/// request.
struct FindSrqOfQp {
  const QueuePair& qp;
  SrqOfQp run(Engine& engine) const;
};

/// Sets the limit and the importance of a queue pair on its shared receive queue, as FindSrqOfQp
/// has returned it. Returns false if the queue pair is on another queue by now; nothing has changed
/// then. REQUIRES: the queue pair exists; `made` is given if `srq` has no provisioner, and only
/// then.
struct SetReceiveTerms {
  Qpn qpn;
  ReceiveQueues::ReceiveTerms terms;
  SharedReceiveQueue& srq;
  std::unique_ptr<receive::Provisioner> made;
  bool run(Engine& engine);
};

}  // namespace softhca::engine
