// What a connection manager asks of the world around it (Environment) and what it tells its user
// (User). One object may be both.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/management/cm/parameters.hpp"
#include "daemon/wire/cm_messages.hpp"
#include "daemon/wire/mad.hpp"

namespace softhca::management::cm {

class Environment {
 public:
  virtual ~Environment() = default;
  /// Sends a MAD from the general services agent at path.local to the one at path.remote; it may
  /// be lost. What goes to a path of unknown standing gives way to the rest. Does not call the
  /// manager: what is for an address of this daemon is queued.
  virtual void send(const Path& path, const wire::Mad& mad) = 0;
  /// A number that nobody can guess.
  virtual std::uint32_t random() = 0;
  /// A connection with the peer is established, so its address is not made up. Called again from
  /// time to time for a peer that connects again.
  virtual void note_established_peer(const Gid&) {}
};

/// A request of a peer, for a service id.
struct Request {
  CommId id;  ///< of the connection that it becomes when it is taken
  Path path;  ///< the way back to the peer
  const wire::CmReq& message;
  Time now{};
};

/// A request of a peer for the queue pair behind a service id.
struct SidrRequest {
  CommId id;
  Path path;
  const wire::CmSidrReq& message;
  Time now{};
};

/// The user's answer to a request.
struct Answer {
  enum class Kind : std::uint8_t {
    kTake,     ///< a connection of the user's, named `cookie`, until it destroys it
    kSilence,  ///< no answer: the peer tries again later (a full backlog)
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

/// What happened to a connection of the user's.
struct Event {
  enum class Kind : std::uint8_t {
    kReplied,              ///< active: REP came, see `rep`; confirm() or reject()
    kEstablished,          ///< passive: RTU came, see `rtu` (null after notify_established())
    kRejected,             ///< REJ came, see `rej`: over
    kDelayed,              ///< MRA came, see `mra`
    kUnreachable,          ///< no answer to all that was sent in `state`, see below, or given up
                           ///< for the request of another peer
    kDisconnectRequested,  ///< DREQ came, see `dreq`; disconnect() answers it
    kDisconnected,         ///< DREP came, see `drep`: time wait begins
    kTimeWaitOver,         ///< the queue pair's number may be used again: over
    kSidrReplied,          ///< SIDR_REP came, see `sidr_rep`: over
  };
  Kind kind{};
  CommId id;
  Cookie cookie = 0;
  /// The state before the event. kUnreachable: kReqSent, kMraReqReceived (no REP), kRepSent,
  /// kMraRepReceived (no RTU), kSidrReqSent: over; kDreqSent (no DREP): time wait begins.
  State state{};
  Time now{};

  // The message that belongs to the kind, valid during the call: all its fields, and the private
  // data in full length.
  const wire::CmRep* rep = nullptr;
  const wire::CmRtu* rtu = nullptr;
  const wire::CmRej* rej = nullptr;
  const wire::CmMra* mra = nullptr;
  const wire::CmDreq* dreq = nullptr;
  const wire::CmDrep* drep = nullptr;
  const wire::CmSidrRep* sidr_rep = nullptr;
};

/// Which of Limits a peer's request exceeds: it gets no answer.
enum class OverLimit : std::uint8_t { kConnections, kHalfOpen };

/// The user of a manager, who is told of its connections. Within the calls the user may call the
/// manager, except receive() and expire(): what a call reports has been done before the call.
class User {
 public:
  virtual ~User() = default;
  /// A new REQ. Not called for duplicates or stale requests, or above the limits. The connection
  /// exists only after the answer: request.id may be kept, but not used yet.
  virtual Answer on_request(const Request& request) = 0;
  /// A new SIDR_REQ; as on_request().
  virtual Answer on_sidr_request(const SidrRequest& request) = 0;
  virtual void on_over_limit(OverLimit) {}
  virtual void on_event(const Event& event) = 0;
};

}  // namespace softhca::management::cm
