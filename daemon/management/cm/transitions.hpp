// The state table of a connection: one row for each state and input that means anything. All other
// inputs are counted and left without an answer.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/parameters.hpp"
#include "daemon/wire/mad.hpp"

namespace softhca::management::cm {

enum class Input : std::uint8_t {
  // messages
  kReq,  ///< a duplicate: a new one makes a connection
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
  kGiveWay,    ///< half-open, of an unknown peer: another request needs the place
  kExpired,    ///< the timer, and a retry is left
  kExhausted,  ///< the timer, and none is left
  kCount,
};

const char* name_of(Input input);

enum class Send : std::uint8_t {
  kNothing,
  kGiven,  ///< what the call made; kept
  kAgain,  ///< what was kept
  kMra,
  kRejTimeout,       ///< REJ 4 with the GUID of this side's adapter
  kRejConsumer,      ///< REJ 28; kept
  kRejStaleOrAgain,  ///< the REJ that was kept, or else REJ 10
  kDreq,             ///< kept
  kDrep,
  kApr,         ///< alternate paths are not supported
  kSidrReject,  ///< kept
};

/// Whether what is kept to be sent again is something else than what was sent.
enum class Then : std::uint8_t {
  kKeep,
  kDreq,  ///< the peer may have taken itself for connected: asked until it answers
};

/// The end of a connection in the state column.
inline constexpr State kOver = State::kCount;

struct Transition {
  Send send = Send::kNothing;
  State next = kOver;
  std::optional<Event::Kind> tell;
  bool user_leaves = false;  ///< no event comes after this one
  Then then = Then::kKeep;
};

/// What comes with an input.
struct Details {
  const wire::Mad* given = nullptr;  ///< made by a call
  std::uint64_t transaction_id = 0;  ///< of a LAP
  std::uint8_t service_timeout = 0;  ///< of an MRA, come or to go
  const Event* message = nullptr;    ///< what of the event is known: its pointer to the message
};

/// Null: the input means nothing in this state.
const Transition* find_transition(State state, Input input);

}  // namespace softhca::management::cm
