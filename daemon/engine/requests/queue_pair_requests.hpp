// SPDX-License-Identifier: Apache-2.0

// Requests about queue pairs of processes.
#pragma once

#include <cstdint>
#include <optional>

#include "abi/control.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/engine/records/qp_attributes.hpp"
#include "daemon/engine/records/route.hpp"

namespace softhca::engine {

class Engine;
struct QueuePair;
struct Session;

/// Gives a queue pair its number and slot. Returns false if no slot is free, or if the given number
/// is in use.
struct InstallQp {
  QueuePair& qp;
  Qpn number{};  ///< that an earlier engine chose; 0: the engine chooses
  bool run(Engine& engine) const;
};

/// Installs a queue pair of an earlier engine, and lets it go on in the state and at the place in
/// which that engine has left it. REQUIRES: the engine is restoring; the session, queues, domain
/// and addresses of the queue pair are there.
struct RestoreQp {
  enum class Result : std::uint8_t {
    kDone,
    kNumberTaken,  ///< its slot is in use, or no engine of this size chooses the number
    kNotLeft,      ///< the earlier engine has left no such queue pair: it is new, in RESET
  };

  QueuePair& qp;
  Qpn number;
  /// All that its program has set since RESET; `mask` says which.
  abi::QpAttributes attributes;
  std::optional<AddressPath> path;  ///< nothing: its program has set none
  Result run(Engine& engine) const;
};

/// Removes a queue pair, and discards its commands without completions. The object may be freed
/// afterwards.
struct RemoveQp {
  QueuePair& qp;
  void run(Engine& engine) const;
};

/// Adds a process that has the XRC target open. It receives the target's events, too.
struct ShareQp {
  QueuePair& qp;
  Session& session;
  std::uint64_t user_handle;
  void run(Engine& engine) const;
};

/// Releases a queue pair that processes may share: ends the hold of this one, or removes the queue
/// pair.
struct ReleaseQp {
  QueuePair& qp;
  Session& session;
  std::uint64_t user_handle;
  bool is_last;               ///< no other process holds it: it is removed
  bool with_session = false;  ///< the session ends
  void run(Engine& engine) const;
};

/// How long a request that ends sending has waited for commands posted before it.
struct SendWait {
  std::uint32_t turns = 0;
  Time since{};  ///< if there were turns: the time of the first
};

/// Looks whether a request that ends sending may be executed. It may if the commands that the
/// program posted before it are sent, or have had their time. Returns nothing if so. Else returns
/// how long it has waited now; the caller repeats the request in its next turn.
struct AwaitSends {
  QueuePair& qp;
  std::uint32_t send_sequence;  ///< number of the first command after the request
  SendWait waited;
  std::optional<SendWait> run(Engine& engine) const;
};

/// Stores attributes and changes the state of a queue pair, if its state allows it. The engine
/// itself moves queue pairs to the error state, so the request checks the state. The caller has
/// checked the values.
struct ModifyQp {
  enum class Result : std::uint8_t {
    kDone,
    kRefused,  ///< the state is not as expected, or the type does not allow the transition
    kWaits,    ///< commands posted before are still to be sent, as for AwaitSends
  };
  struct Answer {
    Result result = Result::kDone;
    QpState state = QpState::kReset;  ///< in which it is now
    SendWait waited{};                ///< kWaits: for the next turn
  };

  QueuePair& qp;
  abi::QpAttributes attributes;     ///< `mask` says which
  std::optional<AddressPath> path;  ///< nothing: it stays
  std::uint32_t send_sequence;      ///< number of the first command after the request
  SendWait waited;
  /// True if a queue pair of this type allows the change in state `from`.
  bool fits(QpState from) const;
  Answer run(Engine& engine) const;
};

/// Returns the state of a queue pair.
struct QueryQp {
  struct Answer {
    QpState state;
    bool draining;  ///< in SQD, commands that have begun are not complete
  };

  const QueuePair& qp;
  Answer run(Engine& engine) const;
};

/// Makes a UD queue pair a member of a group. Returns 0, ENOMEM (beyond abi::kMaxMulticast*) or
/// EOPNOTSUPP (no port of the tenant receives packets to groups).
struct AttachMulticast {
  QueuePair& qp;
  Gid group;
  int run(Engine& engine) const;
};

/// Ends a membership. Returns 0, or EINVAL if the queue pair is not a member.
struct DetachMulticast {
  QueuePair& qp;
  Gid group;
  int run(Engine& engine) const;
};

}  // namespace softhca::engine
