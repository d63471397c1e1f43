// SPDX-License-Identifier: Apache-2.0

// An event channel that a process has open, with the events that it has not read yet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "daemon/roce/rdma_cm/identifier.hpp"
#include "daemon/roce/rdma_cm/layouts.hpp"

namespace softhca::management::rdma_cm {

struct QueuedEvent {
  IdentifierNumber owner;                      ///< counts the event as reported
  std::optional<MembershipNumber> membership;  ///< also counts the event as reported
  std::optional<IdentifierNumber> request;     ///< CONNECT_REQUEST: the new identifier
  rdma_ucm_event_resp response{};
};

/// The answer to a command, for a process that asks again because the adapter has ended.
struct Answer {
  std::uint32_t tag = 0;  ///< of the request
  int error = 0;
  ChannelReply reply;
};

struct Channel {
  ChannelId id;
  ChannelOwner owner;
  std::set<IdentifierNumber> identifiers;
  /// The keys are ascending sequence numbers.
  std::map<std::uint64_t, QueuedEvent> events;
  std::optional<Answer> earlier;  ///< last answer of an earlier adapter, until the next command
};

}  // namespace softhca::management::rdma_cm
