// Send queue scheduler: doorbells, and which send queue is read next (mechanisms A5, B1 to B3).
//
// A doorbell says "the send queue of this pair holds commands up to here", so a later one contains
// the earlier ones: the scheduler's buffer is one descriptor per queue pair with a read pointer
// (next command to fetch) and a write pointer (where the latest doorbell ends). Descriptors with
// work stand in a list of their tenant, tenants with work in a list of the scheduler; both take
// turns.
//
// Order (B3): commands of a queue pair start in sequence whichever way they came. The scheduler
// counts the commands of a queue pair that have been kicked and not started, and lets it change its
// way, VCB or doorbell, only when there are none; so the two ways may use different TVLs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/types.hpp"

namespace softhca::schedule {

/// Index of a queue pair in its engine's table.
using QpSlot = Id<struct QpSlotTag, std::uint32_t>;

enum class RingVerdict : std::uint8_t {
  kAccepted,  ///< the write pointer moved on
  kStale,     ///< says nothing new: an earlier doorbell covered it; a VCB command is to be dropped
  kHostile,   ///< further ahead than the send queue is long
};

/// Commands to fetch from one send queue: `count` from `sequence` on.
struct Turn {
  QpSlot slot;
  std::uint32_t sequence = 0;
  std::uint32_t count = 0;  ///< at least 1, at most the quantum
};

struct SendQueueSchedulerConfig {
  std::uint32_t max_queue_pairs = 0;
  std::uint16_t max_tenants = 0;
  std::uint32_t quantum = 16;  ///< commands per turn of a queue pair
};

/// Counters of one tenant; may be read on any thread.
struct DoorbellCounters {
  Counter accepted;
  Counter stale;
  Counter hostile;
  Counter fetched;  ///< commands
};

class SendQueueScheduler {
 public:
  /// Allocates everything; set-up only.
  explicit SendQueueScheduler(const SendQueueSchedulerConfig& config);

  // --- queue pairs

  /// A queue pair starts to send: its first command has number `sequence`, its send queue holds
  /// `entries` commands. REQUIRES: the slot is closed.
  void open(QpSlot slot, TenantId tenant, std::uint32_t entries, std::uint32_t sequence = 0);
  /// Forgets its doorbells. Nothing happens if it is not open.
  void close(QpSlot slot);
  bool is_open(QpSlot slot) const { return descriptors_[slot.value].state != State::kClosed; }

  // --- the two ways of a command

  /// A doorbell, rung by the process or made from a VCB command without PCB or out of turn (pass
  /// its sequence number + 1). REQUIRES: open.
  RingVerdict ring(QpSlot slot, std::uint32_t sequence_end);

  /// May this VCB command be kicked now? Only when it is exactly the next one, no doorbell is
  /// pending and none fetched by doorbell waits for its start. Otherwise ring() for it.
  bool vcb_may_start(QpSlot slot, std::uint32_t sequence) const;
  /// The next command was kicked from a VCB. REQUIRES: vcb_may_start().
  void vcb_kicked(QpSlot slot);

  /// Whose turn it is; nothing: no queue pair has work that may be fetched. The queue pair and its
  /// tenant go to the end of their lists. Fetch and kick up to `count` commands, report them with
  /// fetched(), and if something was in the way say so with block() or block_tenant(), or the
  /// next turns will be in vain.
  std::optional<Turn> next();
  /// The next `count` commands were fetched and kicked. REQUIRES: they were pending.
  void fetched(QpSlot slot, std::uint32_t count);

  /// A kicked command of this queue pair, of either way, was started (or taken out of its kick
  /// list). To be reported for every one of them.
  void started(QpSlot slot);

  // --- obstacles

  /// This queue pair cannot go on (its kick list is full): no turns until unblock() or
  /// unblock_all(). Doorbells are still accepted.
  void block(QpSlot slot);
  void unblock(QpSlot slot);
  /// unblock() for all queue pairs of a tenant, at the cost of one.
  void unblock_all(TenantId tenant);
  /// None of its queue pairs can go on (its dedicated PCBs are in use).
  void block_tenant(TenantId tenant);
  void unblock_tenant(TenantId tenant);

  // --- figures

  bool has_work() const { return !tenants_with_work_.empty(); }
  /// Commands announced by doorbells and not fetched.
  std::uint32_t pending(QpSlot slot) const {
    return descriptors_[slot.value].write - descriptors_[slot.value].read;
  }
  std::uint32_t next_sequence(QpSlot slot) const { return descriptors_[slot.value].read; }
  const DoorbellCounters& counters(TenantId tenant) const {
    return tenants_[tenant.value].counters;
  }

 private:
  enum class State : std::uint8_t {
    kClosed,
    kIdle,     ///< no doorbell pending
    kReady,    ///< linked in its tenant's ready list
    kBlocked,  ///< linked in its tenant's blocked list; after unblock_all() in the ready list
    kHeld,     ///< pending, but VCB commands must start first
  };

  /// Send queue descriptor (B2).
  struct Descriptor {
    IndexLink link;
    std::uint32_t read = 0;
    std::uint32_t write = 0;
    std::uint32_t entries = 0;
    std::uint32_t kicked = 0;      ///< kicked and not started, all of one way
    std::uint32_t blocked_in = 0;  ///< kBlocked: the tenant's blocking period in which it was
    TenantId tenant;
    State state = State::kClosed;
    bool by_vcb = false;  ///< the way of those kicked
  };
  using DescriptorList = IndexList<Descriptor, &Descriptor::link>;

  struct Tenant {
    IndexLink link;
    DescriptorList ready;
    DescriptorList blocked;
    std::uint32_t period = 0;  ///< goes up when the blocked list is emptied as a whole
    bool stopped = false;      ///< block_tenant()
    DoorbellCounters counters;
  };

  bool is_blocked(const Descriptor& d) const;
  void make_ready(std::uint32_t slot);
  void unlink(std::uint32_t slot);
  void update_tenant(std::uint32_t tenant);

  std::uint32_t quantum_;
  std::vector<Descriptor> descriptors_;
  std::vector<Tenant> tenants_;
  IndexList<Tenant, &Tenant::link> tenants_with_work_;
};

}  // namespace softhca::schedule
