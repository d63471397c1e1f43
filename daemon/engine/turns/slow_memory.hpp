// SPDX-License-Identifier: Apache-2.0

// Tenants with slow memory. Where the engine accesses memory through the kernel, it may wait for
// page faults or for the locks of an address space. It waits at most 1 % of the time for one
// tenant. Beyond that, operations that need the tenant's memory are delayed until its share allows
// them again:
//
// - Messages of the tenant, and of others in this daemon to it, do not begin, and hold nothing in
//   the meantime. Those that have begun wait where they are. (Datagrams and messages of unreliable
//   connections to the tenant are dropped and counted.) The tenant sends nothing to other hosts
//   that carries payload or requests it.
// - Requests of peers on other hosts get an RNR NAK with the time after which to send them again
//   (UC and UD: dropped and counted). Responses to the tenant's reads are dropped and counted.
#pragma once

#include <cstdint>

#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/step_clock.hpp"
#include "daemon/engine/turns/rate_gates.hpp"

namespace softhca::engine {

class SlowMemory {
 public:
  SlowMemory(const StepClock& clock, std::uint32_t queue_pairs)
      : clock_(clock), gates_(clock, queue_pairs) {}

  /// Adds a tenant. REQUIRES: it has no queue pair yet. Allocates.
  void add(Tenant& tenant);
  /// Removes a tenant. Calls `wake(slot)` for queue pairs of others that waited for it.
  template <class Wake>
  void remove(Tenant& tenant, Wake&& wake) {
    gates_.forget(gate_of(tenant), wake);
  }
  /// Charges the tenant for the time that the engine waited for its memory.
  void waited(Tenant& tenant, Duration time);

  /// True if the engine has ever waited for a tenant's memory. If not, the functions below need not
  /// be called.
  bool any() const { return any_; }
  /// True if operations on the tenant's memory are delayed now.
  bool is_slow(const Tenant& tenant) const;
  /// True if the queue pair must wait for memory of `owner`. release() reports when its turn comes.
  bool holds(const QueuePair& qp, Tenant& owner);
  /// Returns how long the peer must wait before it sends a packet for the queue pair. Zero: the
  /// packet is accepted.
  Duration request_wait(const QueuePair& qp) const;
  bool waits(const QueuePair& qp) const { return gates_.waits(qp.slot); }
  /// Ends the wait of the queue pair.
  void leave(const QueuePair& qp) { gates_.leave(qp.slot); }

  /// Calls `wake(slot)` for each queue pair that has its turn now. REQUIRES: called in each poll
  /// step.
  template <class Wake>
  void release(Wake&& wake) {
    if (clock_.now < gates_.next()) return;
    gates_.open_due([](const RateGate&) {});
    gates_.pass(wake);
  }
  /// Returns when release() has work next.
  Time next_release() const { return gates_.next(); }

 private:
  static RateGate& gate_of(Tenant& tenant);

  const StepClock& clock_;
  RateGates gates_;
  bool any_ = false;
};

}  // namespace softhca::engine
