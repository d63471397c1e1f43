// SPDX-License-Identifier: Apache-2.0

// What the parts of the rdma_cm service that make and remove identifiers and memberships share.
#pragma once

namespace softhca::management::rdma_cm {

class ChannelTable;
class Environment;
class EventQueues;
class IdentifierTable;
class LocalAddresses;
struct Limits;

/// All outlive the parts.
struct ServiceCore {
  Environment& environment;
  const Limits& limits;
  const LocalAddresses& addresses;
  ChannelTable& channels;
  IdentifierTable& identifiers;
  EventQueues& events;
};

}  // namespace softhca::management::rdma_cm
