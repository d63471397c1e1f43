// SPDX-License-Identifier: Apache-2.0

// Access to the memory that commands, receives and remote keys name, of regions or through windows.
// Keys are looked up for every access. So a region may be deregistered at any time: the next access
// fails, and no pointer dangles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "daemon/base/refusal.hpp"
#include "daemon/engine/memory/memory_waits.hpp"
#include "daemon/engine/records/durable_state.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/tenant_memory/key_table.hpp"
#include "daemon/tenant_memory/scatter_list.hpp"
#include "daemon/tenant_memory/window_table.hpp"

namespace softhca::engine {

/// Returns the Access bit that the access needs.
constexpr std::uint32_t access_flag(transport::RemoteAccess access) {
  switch (access) {
    case transport::RemoteAccess::kRead:
      return memory::kRemoteRead;
    case transport::RemoteAccess::kAtomic:
      return memory::kRemoteAtomic;
    case transport::RemoteAccess::kFlush:
    case transport::RemoteAccess::kFlushRegion:
      return memory::kFlushGlobal;
    case transport::RemoteAccess::kWrite:
      break;
  }
  return memory::kRemoteWrite;
}

/// A place in a region; null: there is none.
struct RegionPlace {
  memory::Region* region = nullptr;
  std::uint64_t offset = 0;
};

class MemoryAccess {
 public:
  /// `state` outlives it.
  explicit MemoryAccess(DurableState& state)
      : keys_(state.sizes().memory_regions, state.regions()),
        windows_(state.windows()),
        waits_(state.slots()) {}

  memory::KeyTable& keys() { return keys_; }
  memory::WindowTable& windows() { return windows_; }
  /// Queue pairs that wait for memory which a process reaches.
  MemoryWaits& waits() { return waits_; }
  const MemoryWaits& waits() const { return waits_; }

  // Accesses of a MemoryWaits::Step may end with kBusy.
  // --- of commands of the queue pair. Errors: kLocalProtection.
  /// Checks whether the memory of the message may be used in this way, and returns its length. Each
  /// access looks it up once more. `writes`: responses are stored there.
  Verdict measure(const QueuePair& qp, const collect::Pcb& pcb, bool writes,
                  std::uint32_t& length) const;
  /// Returns where `bytes` of the message are, from `offset` on. REQUIRES: it is not inline.
  Verdict resolve_message(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                          std::size_t bytes, memory::ScatterList& out) const {
    return memory::resolve(keys_, collect::entries_of(pcb), offset, bytes, memory::kLocalRead,
                           qp.pd, out);
  }
  /// Reads bytes of the message from `offset` on.
  Verdict gather(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                 std::span<std::byte> out);
  Verdict scatter(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                  std::span<const std::byte> in);
  /// Moves bytes between the message, from `offset` on, and `far`, in one copy. `from_far`: into
  /// the message, as for a read. `remote_fault`: the far memory is to blame.
  Verdict move(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
               std::uint32_t bytes, memory::ScatterView far, bool from_far, bool& remote_fault);
  /// Does the same if both sides are contiguous in memory mapped here. `far`: the address there;
  /// null: that side is not. False: nothing has happened, and move() tells.
  bool move_direct(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                   std::uint32_t bytes, std::byte* far, bool from_far) const {
    if (far == nullptr) return false;
    if (collect::is_inline(pcb)) {
      memory::keep_order();
      std::memcpy(far, pcb.payload.data() + offset, bytes);
      return true;
    }
    std::byte* const near =
        memory::resolve_direct(keys_, collect::entries_of(pcb), offset, bytes,
                               from_far ? memory::kLocalWrite : memory::kLocalRead, qp.pd);
    if (near == nullptr) return false;
    memory::keep_order();
    std::memmove(from_far ? near : far, from_far ? far : near, bytes);
    return true;
  }

  // --- why the accesses fail. `now`: the time of the engine's step
  /// Explains why part of a command's or a receive's list may not be used. `needed`: Access bits.
  Refusal explain_entries(std::span<const abi::ScatterGather> list, const QueuePair& qp,
                          memory::PdId pd, const memory::ByteRange& part, std::uint32_t needed,
                          Time now) const;
  /// Explains why remote() finds no place, or why the memory there could not be accessed.
  Refusal explain_remote(const QueuePair& qp, memory::PdId pd, Rkey rkey,
                         const memory::ByteRange& range, transport::RemoteAccess access, Time now);
  /// Explains why bind() or invalidate() fails.
  Refusal explain_bind(const QueuePair& qp, const abi::CommandHeader& header, Time now);
  Refusal explain_invalidate(const QueuePair& qp, Rkey rkey);

  // --- of the receive that the queue pair has drawn
  Verdict scatter_receive(const QueuePair& qp, std::uint64_t offset, std::span<const std::byte> in);
  Verdict resolve_receive(const QueuePair& qp, std::uint64_t offset, std::uint32_t bytes,
                          memory::ScatterList& out) const {
    return memory::resolve(keys_, entries_of_receive(qp), offset, bytes, memory::kLocalWrite,
                           domain_of_receive(qp), out);
  }
  /// Returns the address of these bytes if they are contiguous in memory mapped here. Null: only
  /// resolve_receive() tells.
  std::byte* direct_receive(const QueuePair& qp, std::uint64_t offset, std::uint64_t bytes) const {
    return memory::resolve_direct(keys_, entries_of_receive(qp), offset, bytes, memory::kLocalWrite,
                                  domain_of_receive(qp));
  }
  /// Explains why these bytes could not be stored.
  Refusal explain_receive(const QueuePair& qp, const memory::ByteRange& part, Time now) const;

  // --- of the peer of a queue pair
  /// Returns the memory that the peer names, if it may use it in this way. Checks key, domain,
  /// bounds, and the flags of region, window and queue pair.
  RegionPlace remote(const QueuePair& qp, memory::PdId pd, Rkey rkey, std::uint64_t addr,
                     std::uint64_t length, transport::RemoteAccess access);
  /// Returns the same if the key is that of a region, as most are. Null: only remote() tells.
  /// REQUIRES: not kFlushRegion.
  RegionPlace in_region(const QueuePair& qp, memory::PdId pd, Rkey rkey, std::uint64_t addr,
                        std::uint64_t length, transport::RemoteAccess access) const {
    const std::uint32_t needed = access_flag(access);
    if ((qp.access & needed) == 0 || memory::is_window_key(rkey.value)) return {};
    memory::Region* const region = keys_.lookup(rkey.value);
    if (region == nullptr || memory::check(*region, addr, length, needed, pd) != Verdict::kOk)
      return {};
    return {region, region->offset_of(addr)};
  }
  /// Returns the access that an atomic operation needs.
  static transport::RemoteAccess access_of(transport::RequestKind atomic) {
    return atomic == transport::RequestKind::kAtomicWrite ? transport::RemoteAccess::kWrite
                                                          : transport::RemoteAccess::kAtomic;
  }
  /// Runs an atomic operation; the step of `log` has the value before. kRemoteInvalidRequest: it is
  /// not aligned.
  Verdict atomic(const QueuePair& qp, Rkey rkey, std::uint64_t addr, transport::RequestKind kind,
                 std::uint64_t compare_add, std::uint64_t swap, AtomicLog log);
  /// Returns whether an operation of an earlier engine has run. `writes`: it is an atomic write.
  WasRun recall_atomic(const QueuePair& qp, Rkey rkey, std::uint64_t addr, bool writes,
                       const AtomicStep& step);

  // --- windows
  // `resumed`: an earlier engine may have done it, and ended before the command or message did.
  /// Binds a window. kWindowBind: it may not be bound in this way.
  Verdict bind(const QueuePair& qp, const abi::CommandHeader& header, bool resumed);
  /// Invalidates a window. Only windows of type 2 can be invalidated, through the queue pair that
  /// they are bound to (o10-37.2.17). kLocalQpOperation: no such window has this key.
  Verdict invalidate(const QueuePair& qp, Rkey rkey, bool resumed);
  /// As memory::WindowTable::erase().
  bool remove_window(std::uint32_t key);

 private:
  static std::span<const abi::ScatterGather> entries_of_receive(const QueuePair& qp) {
    return {qp.rq.work->entries, qp.rq.work->count};
  }
  static memory::PdId domain_of_receive(const QueuePair& qp) {
    return qp.srq != nullptr ? qp.srq->pd : qp.pd;
  }
  Verdict gather_list(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                      std::span<std::byte> out);
  Verdict scatter_receive_list(const QueuePair& qp, std::uint64_t offset,
                               std::span<const std::byte> in);
  void settle(const memory::Window& window);
  void explain_key(Refusal& out, const QueuePair& qp, memory::PdId pd, Time now) const;
  void explain_window(Refusal& out, const QueuePair& qp, memory::PdId pd);

  memory::KeyTable keys_;
  memory::WindowTable windows_;
  MemoryWaits waits_;
};

}  // namespace softhca::engine
