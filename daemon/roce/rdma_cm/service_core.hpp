// SPDX-License-Identifier: Apache-2.0

// What the parts of the rdma_cm service that make and remove identifiers and memberships share.
#pragma once

namespace softhca::management::rdma_cm {

class ChannelTable;
class RdmaCmEnvironment;
class EventQueues;
class IdentifierTable;
class TenantGids;
struct RdmaCmLimits;

/// All outlive the parts.
struct ServiceCore {
  RdmaCmEnvironment& environment;
  const RdmaCmLimits& limits;
  const TenantGids& addresses;
  ChannelTable& channels;
  IdentifierTable& identifiers;
  EventQueues& events;
};

}  // namespace softhca::management::rdma_cm
