// An event channel: what a process holds open, with the events it has not taken yet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "daemon/management/rdma_cm/identifier.hpp"
#include "daemon/management/rdma_cm/layouts.hpp"

namespace softhca::management::rdma_cm {

struct QueuedEvent {
  IdentifierNumber owner;                      ///< counts it as reported
  std::optional<MembershipNumber> membership;  ///< which counts it, too
  std::optional<IdentifierNumber> request;     ///< CONNECT_REQUEST: the new identifier
  rdma_ucm_event_resp response{};
};

struct Channel {
  ChannelId id;
  ChannelOwner owner;
  std::set<IdentifierNumber> identifiers;
  /// Keys are sequence numbers that grow with time.
  std::map<std::uint64_t, QueuedEvent> events;
};

}  // namespace softhca::management::rdma_cm
