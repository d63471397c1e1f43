// SPDX-License-Identifier: Apache-2.0

// The process that uses a device, as its front end reaches it: its identity, its memory, and the
// ways to notify it. A front end implements these classes. Runs on the control thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/keeping.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control_thread/peer_identity.hpp"
#include "daemon/device/peer/reply.hpp"

namespace softhca::engine {
struct MemoryReach;
}

namespace softhca::memory {
class ProcessMemory;
}

namespace softhca::control {

/// The daemon's end of a way by which the engine sends events to a process.
class EventEnd {
 public:
  virtual ~EventEnd() = default;
  EventEnd(const EventEnd&) = delete;
  EventEnd& operator=(const EventEnd&) = delete;

  /// Returns the number by which the engine names it to engine::EventSink. It stays the same.
  virtual int number() const = 0;
  /// Returns what Peer::restore_events() of the next adapter needs. 0: it does not outlive this
  /// one.
  virtual KeptId kept() const = 0;

 protected:
  EventEnd() = default;
};

/// A way by which the control thread notifies a process that something waits for it.
class Signal {
 public:
  virtual ~Signal() = default;
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  /// Notifies the process once. Does not block.
  virtual void raise() = 0;
  /// True if the process has not taken a notification.
  virtual bool is_raised() const = 0;
  /// True if no process has the other end.
  virtual bool is_hung_up() const = 0;
  /// As EventEnd::kept(), for Peer::restore_signal().
  virtual KeptId kept() const = 0;

 protected:
  Signal() = default;
};

class Peer {
 public:
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // --- what it is

  const PeerIdentity& identity() const { return identity_; }
  /// Returns its own group and its supplementary groups.
  virtual std::vector<gid_t> groups() const = 0;
  /// Returns the path of its cgroup. Empty: unknown, or the process has ended.
  virtual std::string cgroup() const = 0;
  /// True if the process is in the daemon's PID namespace. False also if this is unknown.
  virtual bool is_in_our_pid_namespace() const = 0;
  /// True if the process may bind ports below 1024. False also if this is unknown.
  virtual bool may_bind_low_ports() const = 0;

  // --- ways to reach it. Functions that take a reply add the process's end to it. They return 0
  // or an errno value.

  /// Makes the eventfd by which the process wakes the engine, which watches `wake`. The caller
  /// keeps `wake` open until the reply is sent.
  virtual int make_wake(UniqueFd& wake, Reply& reply) const = 0;
  virtual int make_events(std::unique_ptr<EventEnd>& events, Reply& reply) const = 0;
  virtual int make_signal(std::unique_ptr<Signal>& signal, Reply& reply) const = 0;
  /// Returns, for each of the ends that make_events() made, if the process has closed its own.
  virtual std::vector<bool> are_closed(std::span<const EventEnd* const> ends) const = 0;
  /// True if no more ends may be made now: too many of the tenant's wait to be closed.
  virtual bool is_stuck() const = 0;

  struct Offered {
    std::shared_ptr<memory::ProcessMemory> memory;
    PassedHandle end;  ///< by which the process gives access to the memory
    KeptId kept;       ///< as EventEnd::kept(), for restore_memory()
  };
  /// Prepares access to memory that the process does not share. `by_proxy`: a process of the daemon
  /// accesses the memory; else the engine does. Errors: EBUSY (an access of the tenant has not come
  /// back yet), and system errors for lack of resources.
  virtual Expected<Offered> offer_memory(const engine::MemoryReach& reach, bool by_proxy) const = 0;

  // --- the same, as an earlier adapter made it for the process. `kept` is what that adapter has
  // recorded. Null or error: nothing is kept under this number.

  virtual std::unique_ptr<EventEnd> restore_events(KeptId kept) const = 0;
  virtual std::unique_ptr<Signal> restore_signal(KeptId kept) const = 0;
  virtual Expected<std::shared_ptr<memory::ProcessMemory>> restore_memory(
      KeptId kept, const engine::MemoryReach& reach, bool by_proxy) const = 0;

  // --- its connection

  /// Answers the request with this tag: with the reply, or with an error alone. Returns false if
  /// the process is gone or does not read.
  virtual bool answer(std::uint32_t tag, int error, const Reply& reply) = 0;
  /// Ends the connection. The process is notified at once.
  virtual void end() = 0;
  /// Returns the number by which records name the connection. 0: it does not outlive the adapter.
  virtual KeptId kept() const = 0;

 protected:
  explicit Peer(const PeerIdentity& identity) : identity_(identity) {}

 private:
  const PeerIdentity identity_;
};

}  // namespace softhca::control
