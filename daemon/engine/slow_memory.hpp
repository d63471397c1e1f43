// Tenants whose memory the engine waits for. Where it reaches memory through the kernel, it may
// wait: for page faults, for the locks of an address space. What it waits for one tenant is a
// hundredth of the time; beyond that, what needs the tenant's memory waits until it is so again.
// That is:
//
// - Messages of the tenant, and of others in this daemon to it, do not begin, and hold nothing
//   meanwhile; those that have begun wait where they are. (Datagrams and messages of unreliable
//   connections to the tenant are dropped and counted.) To other hosts nothing goes that has
//   payload or asks for it.
// - Requests of peers of other hosts are refused by an RNR NAK that says when to send them again
//   (UC and UD: dropped and counted). What comes that the tenant reads is dropped and counted.
#pragma once

#include <cstdint>

#include "daemon/engine/clock.hpp"
#include "daemon/engine/queue_pair.hpp"
#include "daemon/engine/rate_gates.hpp"

namespace softhca::engine {

class SlowMemory {
 public:
  SlowMemory(const StepClock& clock, std::uint32_t queue_pairs)
      : clock_(clock), gates_(clock, queue_pairs) {}

  /// Before the first queue pair of the tenant. Allocates.
  void add(Tenant& tenant);
  /// The tenant is going. Calls `wake(slot)` for queue pairs of others that have waited for it.
  template <class Wake>
  void remove(Tenant& tenant, Wake&& wake) {
    gates_.forget(gate_of(tenant), wake);
  }
  /// The engine has waited so long for memory of the tenant.
  void waited(Tenant& tenant, Duration time);

  /// Has there been such a tenant? If not, nothing of what follows needs to be asked.
  bool any() const { return any_; }
  /// Is the tenant's memory out of reach for now?
  bool is_slow(const Tenant& tenant) const;
  /// Does the queue pair have to wait for memory of `owner`? Its turn comes when it is over.
  bool holds(const QueuePair& qp, Tenant& owner);
  /// How long the peer is to wait with a packet for the queue pair; zero: it may come.
  Duration request_wait(const QueuePair& qp) const;
  bool waits(const QueuePair& qp) const { return gates_.waits(qp.slot); }
  /// The queue pair waits no more.
  void leave(const QueuePair& qp) { gates_.leave(qp.slot); }

  /// Calls `wake(slot)` for queue pairs whose turns have come. To be called in each poll step.
  template <class Wake>
  void release(Wake&& wake) {
    if (clock_.now < gates_.next()) return;
    gates_.open_due([](const RateGate&) {});
    gates_.pass(wake);
  }
  /// When the next is released.
  Time next_release() const { return gates_.next(); }

 private:
  static RateGate& gate_of(Tenant& tenant);

  const StepClock& clock_;
  RateGates gates_;
  bool any_ = false;
};

}  // namespace softhca::engine
