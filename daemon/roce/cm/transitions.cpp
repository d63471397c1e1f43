// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/transitions.hpp"

#include <array>

namespace softhca::management::cm {
namespace {

using Kind = Event::Kind;
constexpr std::optional<Kind> kQuiet = std::nullopt;
constexpr bool kLeaves = true;

struct Row {
  State from;
  Input input;
  Transition transition;
};

// A side that sent REP and gives up cannot know whether its peer is connected, and its REJ may be
// lost. So it sends DREQ after the REJ until DREP arrives.
constexpr Row kRows[] = {
    // active: REQ sent
    {State::kReqSent, Input::kMra, {Send::kNothing, State::kMraReqReceived, Kind::kDelayed}},
    {State::kReqSent, Input::kRep, {Send::kNothing, State::kRepReceived, Kind::kReplied}},
    {State::kReqSent, Input::kRej, {Send::kNothing, kOver, Kind::kRejected, kLeaves}},
    {State::kReqSent, Input::kReject, {Send::kGiven, kOver, kQuiet, kLeaves}},
    {State::kReqSent, Input::kDestroy, {Send::kRejTimeout, kOver, kQuiet, kLeaves}},
    {State::kReqSent, Input::kExpired, {Send::kAgain, State::kReqSent}},
    {State::kReqSent, Input::kExhausted, {Send::kRejTimeout, kOver, Kind::kUnreachable, kLeaves}},

    {State::kMraReqReceived, Input::kMra, {Send::kNothing, State::kMraReqReceived, Kind::kDelayed}},
    {State::kMraReqReceived, Input::kRep, {Send::kNothing, State::kRepReceived, Kind::kReplied}},
    {State::kMraReqReceived, Input::kRej, {Send::kNothing, kOver, Kind::kRejected, kLeaves}},
    {State::kMraReqReceived, Input::kReject, {Send::kGiven, kOver, kQuiet, kLeaves}},
    {State::kMraReqReceived, Input::kDestroy, {Send::kRejTimeout, kOver, kQuiet, kLeaves}},
    {State::kMraReqReceived, Input::kExpired, {Send::kAgain, State::kReqSent}},
    {State::kMraReqReceived,
     Input::kExhausted,
     {Send::kRejTimeout, kOver, Kind::kUnreachable, kLeaves}},

    // active: REP received, the user decides
    {State::kRepReceived, Input::kRep, {Send::kMra, State::kRepReceived}},
    {State::kRepReceived,
     Input::kRej,
     {Send::kNothing, State::kTimeWait, Kind::kRejected, kLeaves}},
    {State::kRepReceived,
     Input::kDreq,
     {Send::kNothing, State::kDreqReceived, Kind::kDisconnectRequested}},
    {State::kRepReceived, Input::kConfirm, {Send::kGiven, State::kEstablished}},
    {State::kRepReceived, Input::kSendMra, {Send::kMra, State::kRepReceived}},
    {State::kRepReceived, Input::kReject, {Send::kGiven, State::kTimeWait, kQuiet, kLeaves}},
    {State::kRepReceived, Input::kDestroy, {Send::kRejConsumer, State::kTimeWait, kQuiet, kLeaves}},

    // passive: REQ received, the user decides
    {State::kReqReceived, Input::kReq, {Send::kMra, State::kMraReqSent}},
    {State::kReqReceived,
     Input::kRej,
     {Send::kNothing, State::kTimeWait, Kind::kRejected, kLeaves}},
    {State::kReqReceived, Input::kAccept, {Send::kGiven, State::kRepSent}},
    {State::kReqReceived, Input::kSendMra, {Send::kMra, State::kMraReqSent}},
    {State::kReqReceived, Input::kReject, {Send::kGiven, State::kTimeWait, kQuiet, kLeaves}},
    {State::kReqReceived, Input::kDestroy, {Send::kRejConsumer, State::kTimeWait, kQuiet, kLeaves}},
    {State::kReqReceived, Input::kGiveWay, {Send::kNothing, kOver, Kind::kUnreachable, kLeaves}},

    {State::kMraReqSent, Input::kReq, {Send::kMra, State::kMraReqSent}},
    {State::kMraReqSent, Input::kRej, {Send::kNothing, State::kTimeWait, Kind::kRejected, kLeaves}},
    {State::kMraReqSent, Input::kAccept, {Send::kGiven, State::kRepSent}},
    {State::kMraReqSent, Input::kSendMra, {Send::kMra, State::kMraReqSent}},
    {State::kMraReqSent, Input::kReject, {Send::kGiven, State::kTimeWait, kQuiet, kLeaves}},
    {State::kMraReqSent, Input::kDestroy, {Send::kRejConsumer, State::kTimeWait, kQuiet, kLeaves}},
    {State::kMraReqSent, Input::kGiveWay, {Send::kNothing, kOver, Kind::kUnreachable, kLeaves}},

    // passive: REP sent. RTU may be lost, and DREQ may arrive first.
    {State::kRepSent, Input::kReq, {Send::kNothing, State::kRepSent}},
    {State::kRepSent, Input::kMra, {Send::kNothing, State::kMraRepReceived, Kind::kDelayed}},
    {State::kRepSent, Input::kRtu, {Send::kNothing, State::kEstablished, Kind::kEstablished}},
    {State::kRepSent, Input::kRej, {Send::kNothing, State::kTimeWait, Kind::kRejected, kLeaves}},
    {State::kRepSent,
     Input::kDreq,
     {Send::kNothing, State::kDreqReceived, Kind::kDisconnectRequested}},
    {State::kRepSent,
     Input::kNotifyEstablished,
     {Send::kNothing, State::kEstablished, Kind::kEstablished}},
    {State::kRepSent,
     Input::kReject,
     {Send::kGiven, State::kDreqSent, kQuiet, kLeaves, Then::kDreq}},
    {State::kRepSent,
     Input::kDestroy,
     {Send::kRejConsumer, State::kDreqSent, kQuiet, kLeaves, Then::kDreq}},
    {State::kRepSent, Input::kExpired, {Send::kAgain, State::kRepSent}},
    {State::kRepSent,
     Input::kExhausted,
     {Send::kRejTimeout, State::kDreqSent, Kind::kUnreachable, kLeaves, Then::kDreq}},
    {State::kRepSent, Input::kGiveWay, {Send::kRejTimeout, kOver, Kind::kUnreachable, kLeaves}},

    {State::kMraRepReceived, Input::kReq, {Send::kNothing, State::kMraRepReceived}},
    {State::kMraRepReceived, Input::kMra, {Send::kNothing, State::kMraRepReceived, Kind::kDelayed}},
    {State::kMraRepReceived,
     Input::kRtu,
     {Send::kNothing, State::kEstablished, Kind::kEstablished}},
    {State::kMraRepReceived,
     Input::kRej,
     {Send::kNothing, State::kTimeWait, Kind::kRejected, kLeaves}},
    {State::kMraRepReceived,
     Input::kDreq,
     {Send::kNothing, State::kDreqReceived, Kind::kDisconnectRequested}},
    {State::kMraRepReceived,
     Input::kNotifyEstablished,
     {Send::kNothing, State::kEstablished, Kind::kEstablished}},
    {State::kMraRepReceived,
     Input::kReject,
     {Send::kGiven, State::kDreqSent, kQuiet, kLeaves, Then::kDreq}},
    {State::kMraRepReceived,
     Input::kDestroy,
     {Send::kRejConsumer, State::kDreqSent, kQuiet, kLeaves, Then::kDreq}},
    {State::kMraRepReceived, Input::kExpired, {Send::kAgain, State::kRepSent}},
    {State::kMraRepReceived,
     Input::kExhausted,
     {Send::kRejTimeout, State::kDreqSent, Kind::kUnreachable, kLeaves, Then::kDreq}},
    {State::kMraRepReceived,
     Input::kGiveWay,
     {Send::kRejTimeout, kOver, Kind::kUnreachable, kLeaves}},

    // Both sides. The kept message is RTU on the active side; the passive side has none.
    {State::kEstablished, Input::kReq, {Send::kNothing, State::kEstablished}},
    {State::kEstablished, Input::kRep, {Send::kAgain, State::kEstablished}},
    {State::kEstablished, Input::kRtu, {Send::kNothing, State::kEstablished}},
    {State::kEstablished,
     Input::kRej,
     {Send::kNothing, State::kTimeWait, Kind::kRejected, kLeaves}},
    {State::kEstablished,
     Input::kDreq,
     {Send::kNothing, State::kDreqReceived, Kind::kDisconnectRequested}},
    {State::kEstablished, Input::kLap, {Send::kApr, State::kEstablished}},
    {State::kEstablished, Input::kDisconnect, {Send::kGiven, State::kDreqSent}},
    {State::kEstablished, Input::kDestroy, {Send::kDreq, State::kDreqSent, kQuiet, kLeaves}},
    {State::kEstablished, Input::kStale, {Send::kDreq, State::kDreqSent}},

    // Both sides may disconnect at once. The user has requested it, so it is not asked again.
    {State::kDreqSent, Input::kReq, {Send::kRejStaleOrAgain, State::kDreqSent}},
    {State::kDreqSent, Input::kDreq, {Send::kDrep, State::kTimeWait, Kind::kDisconnected}},
    {State::kDreqSent, Input::kDrep, {Send::kNothing, State::kTimeWait, Kind::kDisconnected}},
    {State::kDreqSent, Input::kRej, {Send::kNothing, State::kTimeWait, Kind::kDisconnected}},
    {State::kDreqSent, Input::kDestroy, {Send::kNothing, State::kDreqSent, kQuiet, kLeaves}},
    {State::kDreqSent, Input::kExpired, {Send::kAgain, State::kDreqSent}},
    {State::kDreqSent, Input::kExhausted, {Send::kNothing, State::kTimeWait, Kind::kUnreachable}},

    {State::kDreqReceived, Input::kDreq, {Send::kNothing, State::kDreqReceived}},
    {State::kDreqReceived, Input::kDisconnect, {Send::kGiven, State::kTimeWait}},
    {State::kDreqReceived, Input::kDestroy, {Send::kDrep, State::kTimeWait, kQuiet, kLeaves}},

    {State::kTimeWait, Input::kReq, {Send::kRejStaleOrAgain, State::kTimeWait}},
    {State::kTimeWait, Input::kRep, {Send::kRejStaleOrAgain, State::kTimeWait}},
    {State::kTimeWait, Input::kDreq, {Send::kDrep, State::kTimeWait}},
    {State::kTimeWait, Input::kDestroy, {Send::kNothing, State::kTimeWait, kQuiet, kLeaves}},
    {State::kTimeWait, Input::kExpired, {Send::kNothing, kOver, Kind::kTimeWaitOver, kLeaves}},

    // service id resolution
    {State::kSidrReqSent, Input::kSidrRep, {Send::kNothing, kOver, Kind::kSidrReplied, kLeaves}},
    {State::kSidrReqSent, Input::kDestroy, {Send::kNothing, kOver, kQuiet, kLeaves}},
    {State::kSidrReqSent, Input::kExpired, {Send::kAgain, State::kSidrReqSent}},
    {State::kSidrReqSent, Input::kExhausted, {Send::kNothing, kOver, Kind::kUnreachable, kLeaves}},

    {State::kSidrReqReceived, Input::kSidrReq, {Send::kNothing, State::kSidrReqReceived}},
    {State::kSidrReqReceived,
     Input::kSidrReply,
     {Send::kGiven, State::kSidrRepSent, kQuiet, kLeaves}},
    {State::kSidrReqReceived,
     Input::kDestroy,
     {Send::kSidrReject, State::kSidrRepSent, kQuiet, kLeaves}},
    {State::kSidrReqReceived,
     Input::kGiveWay,
     {Send::kNothing, kOver, Kind::kUnreachable, kLeaves}},

    {State::kSidrRepSent, Input::kSidrReq, {Send::kAgain, State::kSidrRepSent}},
    {State::kSidrRepSent, Input::kExpired, {Send::kNothing, kOver, kQuiet, kLeaves}},
};

constexpr std::size_t kStates = static_cast<std::size_t>(State::kCount);
constexpr std::size_t kInputs = static_cast<std::size_t>(Input::kCount);

constexpr std::size_t cell(State state, Input input) {
  return static_cast<std::size_t>(state) * kInputs + static_cast<std::size_t>(input);
}

constexpr auto kTable = [] {
  std::array<const Transition*, kStates * kInputs> table{};
  for (const Row& row : kRows) table[cell(row.from, row.input)] = &row.transition;
  return table;
}();

constexpr bool each_cell_once() {
  std::size_t filled = 0;
  for (const Transition* t : kTable) filled += t != nullptr;
  return filled == std::size(kRows);
}
static_assert(each_cell_once());

}  // namespace

const Transition* find_transition(State state, Input input) { return kTable[cell(state, input)]; }

const char* name_of(State state) {
  constexpr const char* kNames[] = {
      "req-sent",  "mra-req-received", "rep-received",      "req-received",  "mra-req-sent",
      "rep-sent",  "mra-rep-received", "established",       "dreq-sent",     "dreq-received",
      "time-wait", "sidr-req-sent",    "sidr-req-received", "sidr-rep-sent",
  };
  static_assert(std::size(kNames) == kStates);
  return state < State::kCount ? kNames[static_cast<std::size_t>(state)] : "over";
}

const char* name_of(Input input) {
  constexpr const char* kNames[] = {
      "REQ",
      "MRA",
      "REJ",
      "REP",
      "RTU",
      "DREQ",
      "DREP",
      "LAP",
      "SIDR_REQ",
      "SIDR_REP",
      "confirm",
      "accept",
      "reject",
      "disconnect",
      "destroy",
      "send_mra",
      "notify_established",
      "sidr_reply",
      "stale",
      "give_way",
      "expired",
      "exhausted",
  };
  static_assert(std::size(kNames) == kInputs);
  return kNames[static_cast<std::size_t>(input)];
}

}  // namespace softhca::management::cm
