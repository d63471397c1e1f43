// SPDX-License-Identifier: Apache-2.0

// Parameters and results of the calls of a connection manager. Times are codes of the specification
// unless they are Durations: a response timeout or packet life time t means about 2^(t-8) ms, at
// least 1 ms; an acknowledge timeout t means 4.096 us * 2^t.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/wire/cm_messages.hpp"

namespace softhca::management::cm {

/// Local communication id of a connection of a manager. Random, never 0, and unique among all
/// connections of the manager, including those in time wait.
using CommId = Id<struct CommIdTag, std::uint32_t>;

/// Id that the user gives a connection.
using Cookie = std::uint64_t;

/// Bytes for the private data of a message; shorter data is padded with zeros.
using PrivateData = std::span<const std::byte>;

/// What is known about a peer's address (see address_validation.hpp).
enum class Standing : std::uint8_t {
  kUnknown,      ///< the address may be made up
  kAnswered,     ///< the peer has answered a message sent to the address
  kEstablished,  ///< a connection with the peer was established
};

/// The path from an address of this side to one of the peer.
struct Path {
  Gid local;
  Gid remote;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  Standing standing = Standing::kEstablished;  ///< of the peer, if this is the path of its request

  bool operator==(const Path&) const = default;
};

/// kXrc: the active side has the initiator, the passive side has the target.
enum class Transport : std::uint8_t { kRc, kUc, kXrc };

/// Parameters of connect(), for its REQ.
struct ConnectParameters {
  Cookie cookie = 0;
  Path path;
  std::uint64_t service_id = 0;
  Transport transport = Transport::kRc;
  Qpn local_qpn;
  Psn starting_psn;
  std::uint16_t pkey = 0xffff;
  std::uint8_t path_mtu = 3;             ///< 1 to 5 for 256 to 4096 bytes
  std::uint8_t packet_life_time = 18;    ///< code; 16 in later kernels
  std::uint8_t local_ack_delay = 0;      ///< code, of this adapter
  std::uint8_t packet_rate = 0;          ///< 6 bits, reported to the peer
  std::uint8_t responder_resources = 0;  ///< reads and atomics answered at a time
  std::uint8_t initiator_depth = 0;      ///< reads and atomics in flight
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  bool flow_control = true;
  bool srq = false;
  std::uint8_t remote_response_timeout = 20;  ///< code: how soon the peer must answer
  std::uint8_t local_response_timeout = 20;   ///< code: how soon this side promises to answer
  std::uint8_t max_cm_retries = 15;           ///< REQ and DREQ are sent 1 + this many times
  PrivateData private_data;                   ///< at most 92 bytes, including the RDMA IP header
};

/// Parameters of accept(), for its REP.
struct AcceptParameters {
  Qpn local_qpn;
  Psn starting_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;  ///< code
  std::uint8_t rnr_retry_count = 7;
  bool flow_control = true;
  bool srq = false;
  PrivateData private_data;  ///< at most 196 bytes
};

/// Parameters of reject(), for its REJ.
struct RejectParameters {
  wire::CmRejectReason reason = wire::CmRejectReason::kConsumer;
  PrivateData info;          ///< additional information, at most 72 bytes
  PrivateData private_data;  ///< at most 148 bytes
};

/// Parameters of sidr_request(), for its SIDR_REQ.
struct SidrParameters {
  Cookie cookie = 0;
  Path path;
  std::uint64_t service_id = 0;
  std::uint16_t pkey = 0xffff;
  std::uint8_t response_timeout = 20;  ///< code: interval between retransmissions
  std::uint8_t max_cm_retries = 15;
  PrivateData private_data;  ///< at most 216 bytes, including the RDMA IP header
};

/// Parameters of sidr_reply(), for its SIDR_REP.
struct SidrReplyParameters {
  wire::CmSidrStatus status = wire::CmSidrStatus::kValid;
  Qpn qpn;
  std::uint32_t qkey = 0;
  PrivateData info;          ///< additional information, at most 72 bytes
  PrivateData private_data;  ///< at most 136 bytes
};

/// Result of a call of the user.
enum class Result : std::uint8_t {
  kOk,
  kUnknown,     ///< no connection has this id
  kWrongState,  ///< nothing was done
  kTooLong,     ///< private data or additional information
  kNoPlace,     ///< the manager has reached its limit of connections
};

/// Result of beginning a connection. The id is not set if `result` is kNoPlace or kTooLong.
struct Started {
  Result result = Result::kOk;
  CommId id;
};

/// States of a connection (figures 132 and 133 of the specification; Linux has the same). The
/// states of the active side come first. "Mra": a message receipt acknowledgement was received or
/// sent.
enum class State : std::uint8_t {
  kReqSent,
  kMraReqReceived,
  kRepReceived,
  kReqReceived,
  kMraReqSent,
  kRepSent,
  kMraRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimeWait,
  kSidrReqSent,
  kSidrReqReceived,
  kSidrRepSent,  ///< keeps the reply for duplicates of the request
  kCount,
};

const char* name_of(State state);

/// Attributes for INIT_QP_ATTR, to bring the queue pair of this side to INIT, RTR and RTS.
struct QueuePairAttributes {
  bool may_init = false;     ///< the fields down to responder_resources are valid
  bool may_connect = false;  ///< all fields are valid: the peer's data is known
  Transport transport = Transport::kRc;
  Path path;
  std::uint8_t sl = 0;
  std::uint16_t pkey = 0xffff;
  std::uint8_t responder_resources = 0;  ///< max_dest_rd_atomic
  std::uint8_t initiator_depth = 0;      ///< max_rd_atomic
  std::uint8_t path_mtu = 3;             ///< 1 to 5
  Qpn remote_qpn;
  Psn rq_psn;  ///< the peer's starting PSN
  Psn sq_psn;  ///< on the passive side, valid after accept()
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t ack_timeout = 0;  ///< code
  bool peer_has_srq = false;
};

/// A connection as reported to operators.
struct ConnectionView {
  CommId id;
  Cookie cookie = 0;
  bool has_user = false;  ///< false: the user destroyed it; it ends without one
  bool active = false;    ///< this side sent the request
  State state{};
  Path path;
  std::uint64_t service_id = 0;
  std::uint32_t remote_comm_id = 0;
  Qpn local_qpn;
  Qpn remote_qpn;
};

struct CmLimits {
  /// Most connections of all kinds: connecting, connected, in time wait, service id resolutions.
  std::uint32_t connections = 65536;
  /// Most connections that peers requested and that are not established yet. One host may have as
  /// many as it leaves to others: half of them if it is alone. An eighth is reserved for peers with
  /// which a connection was established before.
  std::uint32_t half_open = 1024;
  /// Most replies per second that belong to no connection: refusals of requests, REJ for an unknown
  /// REP, DREP for an unknown DREQ. The peer retransmits if it gets none.
  std::uint32_t stateless_replies = 4096;
  /// Longest timeout that a peer may request, in its REQ or its MRA; longer ones are reduced to it.
  Duration longest_wait = std::chrono::seconds(70);
  /// Longest wait for the RTU of a peer, whatever its REQ and its MRAs request.
  Duration longest_half_open = std::chrono::seconds(140);

  Duration bounded(Duration wait) const { return std::min(wait, longest_wait); }
};

/// This end, as its peers know it.
struct LocalEnd {
  std::uint64_t ca_guid = 0;
  CmLimits limits;
};

struct Counters {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t retries = 0;              ///< retransmitted because no answer came
  std::uint64_t duplicates = 0;           ///< duplicates received
  std::uint64_t malformed = 0;            ///< not a message of this version of the class
  std::uint64_t wrong_source = 0;         ///< not from a general services agent
  std::uint64_t unknown = 0;              ///< for no connection, or not from its peer
  std::uint64_t unexpected = 0;           ///< not valid in this state
  std::uint64_t requests_refused = 0;     ///< by the user
  std::uint64_t requests_over_limit = 0;  ///< not answered, or dropped while waiting
  std::uint64_t stale = 0;                ///< REQ for a queue pair that was connected
  std::uint64_t replies_over_limit = 0;   ///< see CmLimits::stateless_replies
  /// Connections without a user that were dropped to make room for new ones.
  std::uint64_t given_up = 0;
  std::uint64_t timeouts = 0;  ///< no retry was answered
  std::uint64_t established = 0;
};

}  // namespace softhca::management::cm
