// SPDX-License-Identifier: Apache-2.0

// Drives the transport state machines: the turns of queue pairs with work, received packets, and
// timers.
#pragma once

#include <cstddef>

#include "daemon/engine/commands/command_intake.hpp"
#include "daemon/engine/datagrams/ud_sender.hpp"
#include "daemon/engine/queue_pairs/qp_lifecycle.hpp"

namespace softhca::engine {

class TransportDriver {
 public:
  TransportDriver(const StepClock& clock, const TransportParts& parts, CommandIntake& intake,
                  QpLifecycle& lifecycle, UdSender& ud_sender)
      : clock_(clock),
        parts_(parts),
        intake_(intake),
        lifecycle_(lifecycle),
        stall_(lifecycle.stall()),
        ud_sender_(ud_sender) {}

  /// Runs queue pairs that have work, up to the budget. Returns their number.
  std::size_t run_ready();
  /// Receives a packet for the queue pair. REQUIRES: the transport of the packet and its peer were
  /// checked.
  void receive(QueuePair& qp, const wire::ParsedFrame& frame);
  /// Runs the queue pairs of all timers that are due. Returns the number of timers.
  std::size_t expire();

 private:
  bool run(QueuePair& qp);
  bool is_being_written(const QueuePair& qp) const;
  bool take_waiting(QueuePair& qp);
  bool take(QueuePair& qp, const wire::ParsedFrame& frame, std::uint64_t number, bool may_wait);
  bool take_step(QueuePair& qp, QpEnvironment& env, const wire::ParsedFrame& frame,
                 std::uint64_t number, bool may_wait);
  bool waits_for_memory(const QueuePair& qp);
  bool waits_in_message(const QueuePair& qp);
  bool transmit(QueuePair& qp);
  bool transmit_watched(QueuePair& qp, transport::Local& local, QpEnvironment& env);
  void settle(QueuePair& qp);
  void expire(QueuePair& qp);

  const StepClock& clock_;
  const TransportParts& parts_;
  CommandIntake& intake_;
  QpLifecycle& lifecycle_;
  QpStall& stall_;
  UdSender& ud_sender_;
};

}  // namespace softhca::engine
