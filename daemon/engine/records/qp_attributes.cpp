// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/qp_attributes.hpp"

#include <cstddef>
#include <iterator>

namespace softhca::engine {
namespace {

using namespace attr;

struct Transition {
  QpType type;
  QpState from;
  QpState to;
  std::uint32_t required;
  std::uint32_t optional;
};

using enum QpType;
using enum QpState;

constexpr std::uint32_t kRcLive =
    kCurState | kAccessFlags | kAltPath | kPathMigState | kMinRnrTimer;
constexpr std::uint32_t kUcLive = kCurState | kAccessFlags | kAltPath | kPathMigState;

constexpr Transition kTransitions[] = {
    {kRc, kReset, kInit, kPkeyIndex | kPort | kAccessFlags, 0},
    {kRc, kInit, kInit, 0, kPkeyIndex | kPort | kAccessFlags},
    {kRc, kInit, kRtr, kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer,
     kAltPath | kAccessFlags | kPkeyIndex},
    {kRc, kRtr, kRts, kTimeout | kRetryCount | kRnrRetry | kSqPsn | kMaxRdAtomic, kRcLive},
    {kRc, kRts, kRts, 0, kRcLive},
    {kRc, kRts, kSqd, 0, kSqdNotify},
    {kRc, kSqd, kRts, 0, kRcLive},
    {kRc, kSqd, kSqd, 0,
     kAv | kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic | kMaxDestRdAtomic | kPort | kAltPath |
         kAccessFlags | kPkeyIndex | kMinRnrTimer | kPathMigState},
    {kUc, kReset, kInit, kPkeyIndex | kPort | kAccessFlags, 0},
    {kUc, kInit, kInit, 0, kPkeyIndex | kPort | kAccessFlags},
    {kUc, kInit, kRtr, kAv | kPathMtu | kDestQpn | kRqPsn, kAltPath | kAccessFlags | kPkeyIndex},
    {kUc, kRtr, kRts, kSqPsn, kUcLive},
    {kUc, kRts, kRts, 0, kUcLive},
    {kUc, kRts, kSqd, 0, kSqdNotify},
    {kUc, kSqd, kRts, 0, kUcLive},
    {kUc, kSqd, kSqd, 0, kAv | kAltPath | kAccessFlags | kPkeyIndex | kPathMigState},
    {kUc, kSqe, kRts, 0, kCurState | kAccessFlags},
    // An XRC queue pair lacks one half. Attributes of that half are accepted and have no effect.
    {kXrcSend, kReset, kInit, kPkeyIndex | kPort | kAccessFlags, 0},
    {kXrcSend, kInit, kInit, 0, kPkeyIndex | kPort | kAccessFlags},
    {kXrcSend, kInit, kRtr, kAv | kPathMtu | kDestQpn | kRqPsn,
     kMaxDestRdAtomic | kMinRnrTimer | kAltPath | kAccessFlags | kPkeyIndex},
    {kXrcSend, kRtr, kRts, kTimeout | kRetryCount | kRnrRetry | kSqPsn | kMaxRdAtomic, kRcLive},
    {kXrcSend, kRts, kRts, 0, kRcLive},
    {kXrcSend, kRts, kSqd, 0, kSqdNotify},
    {kXrcSend, kSqd, kRts, 0, kRcLive},
    {kXrcSend, kSqd, kSqd, 0,
     kAv | kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic | kPort | kAltPath | kAccessFlags |
         kPkeyIndex | kPathMigState},
    {kXrcReceive, kReset, kInit, kPkeyIndex | kPort | kAccessFlags, 0},
    {kXrcReceive, kInit, kInit, 0, kPkeyIndex | kPort | kAccessFlags},
    {kXrcReceive, kInit, kRtr, kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer,
     kAltPath | kAccessFlags | kPkeyIndex},
    {kXrcReceive, kRtr, kRts, kTimeout | kSqPsn, kRetryCount | kRnrRetry | kMaxRdAtomic | kRcLive},
    {kXrcReceive, kRts, kRts, 0, kRcLive},
    {kXrcReceive, kRts, kSqd, 0, kSqdNotify},
    {kXrcReceive, kSqd, kRts, 0, kRcLive},
    {kXrcReceive, kSqd, kSqd, 0,
     kAv | kTimeout | kMaxDestRdAtomic | kPort | kAltPath | kAccessFlags | kPkeyIndex |
         kMinRnrTimer | kPathMigState},
    {kUd, kReset, kInit, kPkeyIndex | kPort | kQkey, 0},
    {kUd, kInit, kInit, 0, kPkeyIndex | kPort | kQkey},
    {kUd, kInit, kRtr, 0, kPkeyIndex | kQkey},
    {kUd, kRtr, kRts, kSqPsn, kCurState | kQkey},
    {kUd, kRts, kRts, 0, kCurState | kQkey},
    {kUd, kRts, kSqd, 0, kSqdNotify},
    {kUd, kSqd, kRts, 0, kCurState | kQkey},
    {kUd, kSqd, kSqd, 0, kPkeyIndex | kQkey},
    {kUd, kSqe, kRts, 0, kCurState | kQkey},
};

}  // namespace

const char* name_of(QpType type) {
  switch (type) {
    case QpType::kRc:
      return "RC";
    case QpType::kUc:
      return "UC";
    case QpType::kUd:
      return "UD";
    case QpType::kXrcSend:
      return "XRC_SEND";
    case QpType::kXrcReceive:
      return "XRC_RECV";
  }
  return "?";
}

const char* name_of(QpState state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<std::size_t>(state)];
}

TransitionFault check_transition(QpType type, QpState from, QpState to, std::uint32_t mask) {
  const std::uint32_t given = mask & ~kState;
  // Allowed from every state. A queue pair in RESET has nothing that could be in error.
  if (to == kReset || (to == kError && from != kReset)) return {.excess = given & ~kCurState};
  for (const Transition& t : kTransitions) {
    if (t.type != type || t.from != from || t.to != to) continue;
    return {.missing = t.required & ~given, .excess = given & ~(t.required | t.optional)};
  }
  return {.is_unknown = true};
}

std::string names_of(std::uint32_t mask) {
  constexpr const char* kNames[] = {"qp_state",
                                    "cur_qp_state",
                                    "en_sqd_async_notify",
                                    "qp_access_flags",
                                    "pkey_index",
                                    "port_num",
                                    "qkey",
                                    "ah_attr",
                                    "path_mtu",
                                    "timeout",
                                    "retry_cnt",
                                    "rnr_retry",
                                    "rq_psn",
                                    "max_rd_atomic",
                                    "alt_ah_attr",
                                    "min_rnr_timer",
                                    "sq_psn",
                                    "max_dest_rd_atomic",
                                    "path_mig_state",
                                    "cap",
                                    "dest_qp_num"};
  std::string names;
  for (std::size_t bit = 0; bit < std::size(kNames); ++bit)
    if ((mask >> bit & 1) != 0) names += (names.empty() ? "" : ", ") + std::string(kNames[bit]);
  return names;
}

}  // namespace softhca::engine
