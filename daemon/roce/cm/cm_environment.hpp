// SPDX-License-Identifier: Apache-2.0

// The interfaces of a connection manager to its surroundings (Environment) and to its user (User).
// One object may implement both.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/state_records.hpp"
#include "daemon/roce/wire/cm_messages.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::management::cm {

class CmEnvironment {
 public:
  virtual ~CmEnvironment() = default;
  /// Sends a MAD from the general services agent at path.local to the one at path.remote; it may be
  /// lost. MADs to a path of unknown standing yield to others. Does not call the manager: a MAD for
  /// an address of this daemon is queued.
  virtual void send(const Path& path, const wire::Mad& mad) = 0;
  /// Returns an unguessable number.
  virtual std::uint32_t random() = 0;
  /// Reports that a connection with the peer is established, so its address is valid. Called again
  /// from time to time for a peer that connects again.
  virtual void note_established_peer(const Gid&) {}
  /// Returns the records of the state, the same in all calls. Null: nothing outlives the adapter.
  virtual StateRecords* records() { return nullptr; }
};

/// A peer's request for a service id.
struct ConnectionRequest {
  CommId id;  ///< id of the connection that the request becomes when it is taken
  Path path;  ///< path back to the peer
  const wire::CmReq& message;
  Time now{};
};

/// A peer's request for the queue pair behind a service id.
struct SidrRequest {
  CommId id;
  Path path;
  const wire::CmSidrReq& message;
  Time now{};
};

/// The user's answer to a request.
struct Answer {
  enum class Kind : std::uint8_t {
    kTake,     ///< it becomes a connection of the user, until the user destroys it
    kSilence,  ///< no answer: the peer tries again later (backlog full)
    kRefuse,   ///< REJ with `reason`, or SIDR_REP with `status`
  };
  Kind kind = Kind::kRefuse;
  Cookie cookie = 0;
  wire::CmRejectReason reason = wire::CmRejectReason::kInvalidServiceId;
  wire::CmSidrStatus status = wire::CmSidrStatus::kUnsupported;

  static Answer take(Cookie cookie) { return {.kind = Kind::kTake, .cookie = cookie}; }
  static Answer silence() { return {.kind = Kind::kSilence}; }
  static Answer refuse(wire::CmRejectReason reason) { return {.reason = reason}; }
  static Answer refuse(wire::CmSidrStatus status) { return {.status = status}; }
};

/// An event of a connection of the user.
struct Event {
  enum class Kind : std::uint8_t {
    kReplied,      ///< active: REP arrived, see `rep`; call confirm() or reject()
    kEstablished,  ///< passive: RTU arrived, see `rtu` (null after notify_established())
    kRejected,     ///< REJ arrived, see `rej`: the connection has ended
    kDelayed,      ///< MRA arrived, see `mra`
    /// No answer to the messages sent in `state`, see below, or the connection was dropped for
    /// another peer's request.
    kUnreachable,
    kDisconnectRequested,  ///< DREQ arrived, see `dreq`; disconnect() answers it
    kDisconnected,         ///< DREP arrived, see `drep`: time wait begins
    kTimeWaitOver,         ///< the queue pair number is free again: the connection has ended
    kSidrReplied,          ///< SIDR_REP arrived, see `sidr_rep`: the resolution has ended
  };
  Kind kind{};
  CommId id;
  Cookie cookie = 0;
  /// The state before the event. For kUnreachable, the connection has ended in kReqSent and
  /// kMraReqReceived (no REP), kRepSent and kMraRepReceived (no RTU), and kSidrReqSent. In
  /// kDreqSent (no DREP) time wait begins.
  State state{};
  Time now{};

  // The message of this kind of event, valid during the call, with all fields and the private data
  // in full length.
  const wire::CmRep* rep = nullptr;
  const wire::CmRtu* rtu = nullptr;
  const wire::CmRej* rej = nullptr;
  const wire::CmMra* mra = nullptr;
  const wire::CmDreq* dreq = nullptr;
  const wire::CmDrep* drep = nullptr;
  const wire::CmSidrRep* sidr_rep = nullptr;
};

/// The limit that a peer's request exceeds: it gets no answer.
enum class OverLimit : std::uint8_t { kConnections, kHalfOpen };

/// The user of a manager, which is notified of its connections. In these calls the user may call
/// the manager, except receive() and expire(). The reported change is complete before the call.
class User {
 public:
  virtual ~User() = default;
  /// Handles a new REQ. Not called for duplicates or stale requests, or above the limits. The
  /// connection exists only after the answer: request.id may be stored, but not used yet.
  virtual Answer on_request(const ConnectionRequest& request) = 0;
  /// Handles a new SIDR_REQ, like on_request().
  virtual Answer on_sidr_request(const SidrRequest& request) = 0;
  virtual void on_over_limit(OverLimit) {}
  virtual void on_event(const Event& event) = 0;
};

}  // namespace softhca::management::cm
