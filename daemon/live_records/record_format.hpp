// SPDX-License-Identifier: Apache-2.0

// How records of live objects lie in memory that outlives an adapter. Adapters of all releases with
// the same kVersion read them, later ones and earlier ones. So a release changes nothing that an
// earlier one has written, and adds only what an earlier adapter may do without:
//
//   - Values at the end of a body. A later adapter takes defaults for those that are missing, an
//     earlier one ignores those that it does not know.
//   - Kinds, of which an adapter writes none before it serves. An earlier adapter refuses to follow
//     while there are records of kinds that it does not know (RecordStore::check_format). It drops
//     those that it finds when it starts, which are of an adapter that failed to start.
//
// Any other change needs another kVersion, by which adapters refuse each other's records.
//
// The memory is a MemoryHeader and slots. A record has as many slots as its body needs, anywhere,
// the first of which is its head. All have the number of the record, the same generation, and their
// place in the record. Replacing a record writes another generation; the highest one counts.
//
// A change of several records has a number. Its slots count, and the records that it ends have
// ended, once the header of the first memory names that number or a higher one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace softhca::records {

/// What a record describes. A number stays with its kind for good.
enum class Kind : std::uint32_t {
  // What processes have (daemon/device).
  kSession = 1,
  kSharedHandles = 2,
  kSharedBuffer = 3,
  kProtectionDomain = 4,
  kMemoryRegion = 5,
  kMemoryWindow = 6,
  kCompletionChannel = 7,
  kCompletionQueue = 8,
  kXrcDomain = 9,
  kSharedReceiveQueue = 10,
  kQueuePair = 11,
  kOpenedQueuePair = 12,
  kAddressHandle = 13,
  kRingSegment = 14,
  kDeviceFile = 15,
  kOfferedMemory = 16,
  kMachine = 17,  ///< the monitor of a virtual machine
  // What the front end, the ports and the services have.
  kSettings = 32,  ///< the configuration in force
  kListener = 34,
  kConnection = 35,
  kPort = 36,
  kKernelGuard = 37,
  kEventChannel = 38,
  kConnectionManager = 39,  ///< an object of rdma_cm
  kDatagramClient = 40,
  kMetricsAddress = 41,
  kJournalEntry = 42,
  kDiagnosis = 43,  ///< a capture or fault, which ends with its adapter
  kPortDown = 44,   ///< a port that the operator has set down
};

/// Returns the words for a kind: "memory region". Null: no kind has this number.
constexpr const char* name_of(Kind kind) {
  constexpr struct {
    Kind kind;
    const char* name;
  } kNames[] = {
      {Kind::kSession, "session"},
      {Kind::kSharedHandles, "handles of shared buffers"},
      {Kind::kSharedBuffer, "shared buffer"},
      {Kind::kProtectionDomain, "protection domain"},
      {Kind::kMemoryRegion, "memory region"},
      {Kind::kMemoryWindow, "memory window"},
      {Kind::kCompletionChannel, "completion channel"},
      {Kind::kCompletionQueue, "completion queue"},
      {Kind::kXrcDomain, "XRC domain"},
      {Kind::kSharedReceiveQueue, "shared receive queue"},
      {Kind::kQueuePair, "queue pair"},
      {Kind::kOpenedQueuePair, "opened queue pair"},
      {Kind::kAddressHandle, "address handle"},
      {Kind::kRingSegment, "ring segment"},
      {Kind::kDeviceFile, "device file"},
      {Kind::kOfferedMemory, "offered memory"},
      {Kind::kMachine, "virtual machine"},
      {Kind::kSettings, "settings"},
      {Kind::kListener, "listener"},
      {Kind::kConnection, "connection"},
      {Kind::kPort, "port"},
      {Kind::kKernelGuard, "kernel guard"},
      {Kind::kEventChannel, "event channel"},
      {Kind::kConnectionManager, "connection manager"},
      {Kind::kDatagramClient, "datagram client"},
      {Kind::kMetricsAddress, "metrics address"},
      {Kind::kJournalEntry, "journal entry"},
      {Kind::kDiagnosis, "capture or fault"},
      {Kind::kPortDown, "port that is set down"},
  };
  for (const auto& each : kNames)
    if (each.kind == kind) return each.name;
  return nullptr;
}

/// States differ in many bits, so that damage does not turn one into another.
enum class SlotState : std::uint32_t {
  kFree = 0,
  kPart = 0x54524150,      ///< not the first slot of its record
  kPrepared = 0x50455250,  ///< of a head: the object is being made
  kLive = 0x4556494c,      ///< of a head
  kDying = 0x47594944,     ///< of a head: the object is being destroyed
};

struct MemoryHeader {
  static constexpr std::uint64_t kMagic = 0x736863615f726563;  // "shca_rec"
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slot_bytes;
  std::uint32_t slots;
  std::uint32_t checksum;                ///< of the fields before it
  std::atomic<std::uint64_t> committed;  ///< number of the last change; only of the first memory
};

struct Slot {
  static constexpr std::uint32_t kBytes = 208;

  /// Written last, and alone: a slot that is not free is whole.
  std::atomic<std::uint32_t> state;  ///< SlotState
  std::uint32_t checksum;            ///< of all that follows `ended`
  std::atomic<std::uint64_t> ended;  ///< of a head: the change that ends the record; 0: none
  std::uint64_t number;              ///< of the record, in the order of making; from 1
  std::uint32_t kind;                ///< Kind
  std::uint32_t generation;
  std::uint32_t place;   ///< in the record, from 0
  std::uint32_t size;    ///< bytes of the record's body
  std::uint64_t change;  ///< that wrote it
  std::array<std::byte, kBytes> body;
};

static_assert(sizeof(MemoryHeader) == 32);
static_assert(sizeof(Slot) == 256 && offsetof(Slot, number) == 16 && offsetof(Slot, body) == 48);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace softhca::records
