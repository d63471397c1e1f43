// SPDX-License-Identifier: Apache-2.0

// Requests that show the operator and the control thread what only the engine's thread may read:
// queue pairs, shared receive queues and paths. They copy it into plain structures.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/engine/records/qp_event.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/route.hpp"
#include "daemon/qos/pools/rate_limits.hpp"
#include "daemon/qos/receive/low_watermark.hpp"
#include "daemon/qos/receive/provisioner.hpp"

namespace softhca::engine {

class Engine;
enum class Reach : std::uint8_t;

// --- one queue pair

/// What FindQp returns.
struct FoundQp {
  const Tenant* tenant = nullptr;
  std::optional<uid_t> user;  ///< of its process; nothing: it has none
  bool is_local = false;      ///< it is connected to a peer in this daemon
};

/// Finds a queue pair. Returns nothing if no queue pair has this number.
struct FindQp {
  Qpn qpn;
  std::optional<FoundQp> run(Engine& engine) const;
};

/// The attributes and the last events of a queue pair.
struct QpDetails {
  QpType type{};
  QpState state{};
  Time since{};  ///< when it entered the state
  Time now{};
  Gid source;
  std::uint32_t access = 0;
  std::uint32_t qkey = 0;
  transport::RcAttributes rc;
  Refusal refusal;  ///< the latest check that failed
  QpPast past;
};

/// Returns the details of a queue pair. REQUIRES: it exists.
struct ShowQp {
  Qpn qpn;
  QpDetails run(Engine& engine) const;
};

// --- lists

/// The limits of a rate, and how it throttles.
struct GateShot {
  RateLimits limits;
  bool held = false;
  std::uint64_t held_ns = 0;  ///< time of past throttling
};

/// The rates of a queue pair.
struct QpRatesShot {
  GateShot sent, inbound, served;
  std::uint64_t min_bytes_per_second = 0;
};

/// The state of a queue pair that the engine changes.
struct QpShot {
  QpState state{};
  Qpn destination;
  Gid peer;
  bool local = false;
  std::uint32_t commands = 0;
  std::uint32_t dedicated = 0;
  std::uint32_t started = 0;
  std::uint32_t begun = 0;  ///< total so far
  std::uint32_t mtu = 0;
  std::uint32_t srq = 0;
  RetryCounters retries;
  std::uint32_t srq_held = 0;
  std::uint32_t srq_limit = 0;
  std::uint8_t srq_rule = 0;
  bool srq_quarantined = false;
  const Level* level = nullptr;  ///< only the control thread removes levels
  std::optional<QpRatesShot> rates;
  QpFailure failure = QpFailure::kNone;
};

/// Copies the state of queue pairs. REQUIRES: they exist, and there is a shot for each.
struct CopyQps {
  std::span<const QueuePair* const> queue_pairs;
  std::span<QpShot> shots;
  void run(Engine& engine) const;
};

/// The state of a provisioned queue that the engine changes (mechanism D).
struct ProvisionShot {
  SrqPolicy policy;
  std::uint32_t active = 0;
  std::uint32_t held = 0;
  std::uint32_t unassigned = 0;
  std::uint32_t quarantined = 0;
  std::uint64_t refused = 0;
  receive::Alarm board;
};

/// A queue pair of the ranking or, if the queue has no accounts, of the top drawers.
struct UserShot {
  Qpn qpn;
  Gid peer;
  std::uint8_t rule = 0;
  bool own_limit = false;
  receive::Offender account;
  std::uint32_t draws = 0;  ///< lower bound of its draws, of those counted lately
};

/// The state of a shared receive queue that the engine changes.
struct SrqShot {
  std::uint32_t number = 0;
  std::optional<std::uint32_t> available;
  std::uint32_t limit = 0;
  std::uint32_t queue_pairs = 0;
  bool failed = false;
  receive::LowWatermark level;
  std::uint64_t draws = 0;
  std::uint32_t lately = 0;  ///< draws counted for the top drawers
  std::uint64_t empty = 0;
  std::uint32_t most_waiting = 0;
  std::vector<UserShot> users;
  std::optional<ProvisionShot> provision;
};

/// Copies the state of a shared receive queue, which takes long: it ranks the queue pairs.
/// REQUIRES: the queue exists.
struct CopySrq {
  SharedReceiveQueue& srq;
  SrqShot run(Engine& engine) const;
};

// --- paths

/// Checks if datagrams can be sent on paths. The engine requests link addresses that it does not
/// know. REQUIRES: there is a place for each answer.
struct CheckPaths {
  std::span<const AddressPath> paths;
  std::span<Reach> reaches;
  void run(Engine& engine) const;
};

}  // namespace softhca::engine
