// SPDX-License-Identifier: Apache-2.0

// Names for operators and metrics.
#include "daemon/roce/rdma_cm/identifier.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::management::rdma_cm {

const char* name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::kIdentifiers:
      return "identifiers";
    case Refusal::kListeners:
      return "listeners";
    case Refusal::kBacklog:
      return "backlog";
    case Refusal::kConnectRate:
      return "connects_per_second";
    case Refusal::kAdmission:
      return "admission";
    case Refusal::kConnections:
      return "most";
    case Refusal::kHalfOpen:
      return "half_open";
    case Refusal::kPeers:
      return "peers";
    case Refusal::kEvents:
      return "events";
    case Refusal::kCount:
      break;
  }
  return "unknown";
}

const char* name_of(IdentifierState state) {
  switch (state) {
    case IdentifierState::kIdle:
      return "idle";
    case IdentifierState::kBound:
      return "bound";
    case IdentifierState::kResolvingAddress:
      return "resolving_address";
    case IdentifierState::kAddressResolved:
      return "address_resolved";
    case IdentifierState::kRouteResolved:
      return "route_resolved";
    case IdentifierState::kConnect:
      return "connect";
    case IdentifierState::kDisconnect:
      return "disconnect";
    case IdentifierState::kListen:
      return "listen";
    case IdentifierState::kRemoved:
      return "removed";
  }
  return "unknown";
}

}  // namespace softhca::management::rdma_cm
