// SPDX-License-Identifier: Apache-2.0

// One connection, or one service ID resolution.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/negotiation.hpp"
#include "daemon/roce/cm/retransmission.hpp"

namespace softhca::management::cm {

struct Connection {
  CommId id;
  /// 0: unknown. For a service ID resolution: the peer's request id.
  std::uint32_t remote_comm_id = 0;
  std::uint64_t remote_ca_guid = 0;
  Cookie cookie = 0;
  bool has_user = true;
  bool active = false;
  State state{};

  Path path;
  std::uint64_t service_id = 0;
  std::uint64_t transaction_id = 0;
  Negotiation queue_pair;
  Retransmission retransmission;
  Duration linger{};         ///< how long a refusal is kept for the peer's retransmissions
  Time give_up_at = kNever;  ///< without RTU

  /// State that the connection table keeps of it.
  struct Places {
    Time deadline = kNever;
    std::uint64_t arrival = 0;        ///< order among requests of peers
    std::uint64_t lingers_since = 0;  ///< 0: has a user
    bool peer_listed = false;
    bool queue_pair_listed = false;
  } places{};

  bool is_service_id_resolution() const { return state >= State::kSidrReqSent; }
  /// True if a peer requested it, and it is not established yet.
  bool is_half_open() const {
    if (active || !has_user) return false;
    return state == State::kReqReceived || state == State::kMraReqSent ||
           state == State::kRepSent || state == State::kMraRepReceived ||
           state == State::kSidrReqReceived;
  }
};

/// True if a message is retransmitted in this state until an answer arrives.
constexpr bool is_retrying(State state) {
  switch (state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kDreqSent:
    case State::kSidrReqSent:
      return true;
    default:
      return false;
  }
}

/// Returns the duration for the code of a response timeout, packet life time or service timeout.
constexpr Duration duration_of(std::uint8_t code) {
  return std::chrono::milliseconds(std::int64_t{1} << std::max((code & 0x1f) - 8, 0));
}

}  // namespace softhca::management::cm
