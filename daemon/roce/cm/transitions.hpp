// SPDX-License-Identifier: Apache-2.0

// The state table of a connection: one row for each valid pair of state and input. All other inputs
// are counted and not answered.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::management::cm {

enum class Input : std::uint8_t {
  // messages
  kReq,  ///< a duplicate: a new REQ makes a connection
  kMra,
  kRej,
  kRep,
  kRtu,
  kDreq,
  kDrep,
  kLap,
  kSidrReq,  ///< a duplicate
  kSidrRep,
  // calls
  kConfirm,
  kAccept,
  kReject,
  kDisconnect,
  kDestroy,
  kSendMra,
  kNotifyEstablished,
  kSidrReply,
  // the rest
  kStale,      ///< the peer uses the queue pair for another connection
  kGiveWay,    ///< half-open, of an unknown peer: another request needs its slot
  kExpired,    ///< the timer expired, and a retry is left
  kExhausted,  ///< the timer expired, and no retry is left
  kCount,
};

const char* name_of(Input input);

enum class Send : std::uint8_t {
  kNothing,
  kGiven,  ///< message made by the call; kept
  kAgain,  ///< the kept message
  kMra,
  kRejTimeout,       ///< REJ 4 with the GUID of this side's adapter
  kRejConsumer,      ///< REJ 28; kept
  kRejStaleOrAgain,  ///< the kept REJ, or else REJ 10
  kDreq,             ///< kept
  kDrep,
  kApr,         ///< alternate paths are not supported
  kSidrReject,  ///< kept
};

/// Selects the message that is kept for retransmission, if it is not the message sent.
enum class Then : std::uint8_t {
  kKeep,
  kDreq,  ///< the peer may consider itself connected: DREQ is sent until it answers
};

/// The state of a connection that has ended.
inline constexpr State kOver = State::kCount;

struct Transition {
  Send send = Send::kNothing;
  State next = kOver;
  std::optional<Event::Kind> tell;
  bool user_leaves = false;  ///< this is the last event
  Then then = Then::kKeep;
};

/// Data that comes with an input.
struct Details {
  const wire::Mad* given = nullptr;  ///< message made by a call
  std::uint64_t transaction_id = 0;  ///< of a LAP
  std::uint8_t service_timeout = 0;  ///< of an MRA, received or to be sent
  const Event* message = nullptr;    ///< the known part of the event: the pointer to its message
};

/// Returns null if the input is not valid in this state.
const Transition* find_transition(State state, Input input);

}  // namespace softhca::management::cm
