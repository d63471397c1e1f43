// SPDX-License-Identifier: Apache-2.0

// The records of a session's objects: what an adapter that follows needs to make each again, with
// the choices that this adapter made. A structure never changes: what a release adds to a record
// follows behind it, as a structure of its own (daemon/live_records/record_format.hpp).
//
// Session: Peer::kept() of its process. An object of a session that has gone ends with it, except
// in a device file that other sessions have, and targets of XRC that they hold.
#pragma once

#include <cstdint>

#include "abi/control.hpp"
#include "daemon/base/keeping.hpp"
#include "daemon/tenant_memory/machine.hpp"

namespace softhca::control::record {

using SessionKey = KeptId;

/// Followed by the text of its level's name (empty: none) and, since release 0.2, by the KeptId of
/// its VCB pages (0: they are in `memory`).
struct Session {
  SessionKey key;
  KeptId memory;
  KeptId wake;
  KeptId events;
  std::uint32_t number;
  std::uint32_t version;
  std::uint32_t vcbs;  ///< places
  std::uint32_t file;  ///< its own device file
  std::uint8_t device;
  std::uint8_t may_offer_memory;
  std::uint8_t reserved[6];
};

/// OfferedMemory::by_proxy: the agent of a virtual machine makes the accesses.
inline constexpr std::uint64_t kInMachine = 2;

struct OfferedMemory {
  SessionKey key;
  KeptId socket;  ///< kInMachine: the number of the memory (abi::OfferMemoryReply)
  std::uint64_t by_proxy;
};

/// A session that shares its device file, or that has joined it.
struct DeviceFile {
  SessionKey key;
  std::uint32_t file;
  std::uint32_t device;
  abi::ContextToken token;
};

/// The monitor of a virtual machine.
struct Machine {
  SessionKey key;
  KeptId bell;  ///< 0: the machine has not started
  memory::Machine::KeptRegion region;
};

struct RingSegment {
  SessionKey key;
  KeptId memory;
  std::uint32_t number;
  std::uint32_t announced;
};

/// The session has given handles below `end` at most.
struct SharedHandles {
  SessionKey key;
  std::uint64_t end;
};

struct SharedBuffer {
  SessionKey key;
  KeptId memory;
  std::uint64_t bytes;
  std::uint32_t handle;  ///< 0: freed, but regions use it
  std::uint32_t is_named;
  abi::SharedToken token;
};

struct ProtectionDomain {
  SessionKey key;
  std::uint32_t file;
  std::uint32_t handle;
  std::uint32_t id;
  std::uint32_t reserved;
};

struct RegionExtent {
  std::uint64_t addr;
  std::uint64_t length;
  std::uint64_t offset;  ///< in the buffer
  KeptId buffer;         ///< 0: memory that the process offers
};
/// Followed by `extents` RegionExtents. A region without extents is a null region, or empty.
struct MemoryRegion {
  SessionKey key;
  SessionKey offers;  ///< the session with the offered memory
  std::uint32_t file;
  std::uint32_t handle;
  std::uint32_t pd;
  std::uint32_t region_key;
  std::uint32_t access;
  std::uint32_t is_null;
  std::uint64_t addr;
  std::uint64_t length;
  std::uint64_t iova;
  std::uint64_t counted;  ///< registered bytes
  std::uint64_t extents;
};

struct MemoryWindow {
  SessionKey key;
  std::uint32_t handle;
  std::uint32_t first_key;
  std::uint32_t pd;
  std::uint32_t type2;
};

struct CompletionChannel {
  SessionKey key;
  KeptId events;
  std::uint64_t handle;
};

struct CompletionQueue {
  SessionKey key;
  std::uint64_t user_handle;
  std::uint32_t handle;
  std::uint32_t entries;
  std::uint32_t channel;
  std::uint16_t moderation_count;
  std::uint16_t moderation_period;
  abi::RingLocation ring;
  abi::RingLocation retired;  ///< from which the queue moves to `ring`; 0 bytes: it does not
};

struct XrcDomain {
  SessionKey key;
  std::uint32_t handle;
  std::uint32_t id;
  abi::OpenXrcDomainRequest request;
};

struct SharedReceiveQueue {
  SessionKey key;
  std::uint32_t handle;
  std::uint32_t number;
  abi::CreateXrcSrqRequest request;  ///< with max_wr as it is now, without a limit
  abi::RingLocation ring;
};
/// Follows a SharedReceiveQueue.
struct RetiredReceiveRing {
  abi::RingLocation ring;  ///< from which the queue moves; 0 bytes: it does not
  std::uint32_t max_wr;    ///< of the queue, if it is still there
  std::uint32_t reserved;
};

/// An engine::AddressPath. The next adapter finds the port by the source.
struct Path {
  std::uint8_t source[16];
  std::uint8_t destination[16];
  std::uint32_t flow_label;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
  std::uint8_t service_level;
  std::uint8_t reserved;
};

struct QueuePair {
  SessionKey key;
  std::uint32_t number;
  std::uint32_t groups;      ///< joined
  std::uint32_t xrc_domain;  ///< id, of a target; 0: it is none
  std::uint32_t has_path;
  abi::CreateQpRequest request;
  abi::RingLocation ring;
  abi::QpAttributes attributes;  ///< `mask`: those that were set since RESET
  Path path;
  std::uint8_t group[abi::kMaxMulticastGroups][16];
};

struct Rates {
  std::uint64_t bytes_per_second;
  std::uint64_t burst_bytes;
  std::uint64_t messages_per_second;
  std::uint64_t burst_messages;
};
/// Follows a QueuePair: what the operator has set for it (`qp.set`).
struct QueuePairTerms {
  Rates sent;
  Rates inbound;
  Rates served;
  std::uint64_t min_bytes_per_second;
  std::uint32_t srq_limit;
  std::uint8_t importance;
  std::uint8_t has_rates;
  std::uint8_t has_srq_limit;
  std::uint8_t has_importance;
};

struct OpenedQueuePair {
  SessionKey key;
  std::uint64_t user_handle;
  std::uint32_t handle;
  std::uint32_t number;
  std::uint32_t xrc_domain;  ///< handle
  std::uint32_t reserved;
};

struct AddressHandle {
  SessionKey key;
  std::uint32_t number;  ///< the engine's
  std::uint32_t pd;
  Path path;
};

static_assert(sizeof(Session) == 56 && sizeof(OfferedMemory) == 24 && sizeof(DeviceFile) == 32 &&
              sizeof(RingSegment) == 24 && sizeof(SharedHandles) == 16 &&
              sizeof(SharedBuffer) == 48 && sizeof(ProtectionDomain) == 24 &&
              sizeof(RegionExtent) == 32 && sizeof(MemoryRegion) == 80 &&
              sizeof(MemoryWindow) == 24 && sizeof(CompletionChannel) == 24 &&
              sizeof(CompletionQueue) == 64 && sizeof(XrcDomain) == 40 &&
              sizeof(SharedReceiveQueue) == 64 && sizeof(RetiredReceiveRing) == 24 &&
              sizeof(QueuePair) == 520 && sizeof(QueuePairTerms) == 112 &&
              sizeof(OpenedQueuePair) == 32 && sizeof(AddressHandle) == 56);

}  // namespace softhca::control::record
