// SPDX-License-Identifier: Apache-2.0

// Scatter/gather lists with their keys resolved, and moving bytes to, from and between them. Each
// function copies once, however the two sides are reached; only between two ranges of process
// memory it copies twice (bounce buffer). The functions return kOk or kLocalProtection (out of
// bounds, not mapped, process gone); bytes before a fault may have been moved. kBusy: as
// ProcessMemory. Source and destination may overlap: within one extent the result is that of
// memmove, otherwise it is unspecified.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "daemon/base/atomic_step.hpp"
#include "daemon/tenant_memory/key_table.hpp"

namespace softhca::memory {

/// Bytes [offset, offset + length) of a region. Valid until the engine's next step.
struct ScatterEntry {
  Region* region;
  std::uint64_t offset;
  std::uint64_t length;

  /// Returns the address of [from, from + bytes) of the entry if it is contiguous and mapped here,
  /// else null.
  std::byte* direct(std::uint64_t from, std::uint64_t bytes) const {
    if (from > length || bytes > length - from) return nullptr;
    return region->direct(offset + from, bytes);
  }
};
using ScatterView = std::span<const ScatterEntry>;

inline constexpr std::size_t kMaxEntries = 16;

struct ScatterList {
  std::array<ScatterEntry, kMaxEntries> entries;
  std::size_t count = 0;
  ScatterView view() const { return {entries.data(), count}; }
};

/// Resolves the part of a list of keyed entries (each with addr, length, lkey) that holds bytes
/// [offset, offset + length) of the message. Bytes of `out` are numbered from 0. Entries outside
/// the part are not checked: as with adapters, a receive may exceed its region where the message
/// does not. Returns kLocalProtection if a key is unknown, of another domain, too narrow or without
/// `needed` (Access), and kLocalLength if the list is shorter than offset + length. REQUIRES: at
/// most kMaxEntries entries.
template <class Entry>
Verdict resolve(const KeyTable& keys, std::span<const Entry> list, std::uint64_t offset,
                std::uint64_t length, std::uint32_t needed, PdId pd, ScatterList& out) {
  out.count = 0;
  for (const Entry& entry : list) {
    if (length == 0) break;
    if (offset >= entry.length) {
      offset -= entry.length;
      continue;
    }
    const std::uint64_t addr = entry.addr + offset, rest = entry.length - offset;
    const std::uint64_t part = rest < length ? rest : length;
    Region* region = keys.lookup(entry.lkey);
    if (region == nullptr || check(*region, addr, part, needed, pd) != Verdict::kOk)
      return Verdict::kLocalProtection;
    out.entries[out.count++] = {region, region->offset_of(addr), part};
    length -= part;
    offset = 0;
  }
  return length == 0 ? Verdict::kOk : Verdict::kLocalLength;
}

/// Returns the address of the bytes that resolve() finds, if the first entry of the list has all of
/// them, contiguous in memory mapped here. Most messages are so. Null: they are elsewhere, or may
/// not be used so; resolve() tells.
template <class Entry>
inline std::byte* resolve_direct(const KeyTable& keys, std::span<const Entry> list,
                                 std::uint64_t offset, std::uint64_t length, std::uint32_t needed,
                                 PdId pd) {
  if (list.empty()) return nullptr;
  const Entry& entry = list.front();
  if (offset > entry.length || length > entry.length - offset) return nullptr;
  const std::uint64_t addr = entry.addr + offset;
  const Region* const region = keys.lookup(entry.lkey);
  if (region == nullptr || check(*region, addr, length, needed, pd) != Verdict::kOk) return nullptr;
  return region->direct(region->offset_of(addr), length);
}

/// Orders memory accesses; called before each access below. A program that polls its memory sees
/// writes in the order in which they are made, a flag after the data that it announces, as with an
/// adapter; the same holds for reads. x86 processors keep this order themselves, so this costs
/// nothing there.
inline void keep_order() { std::atomic_thread_fence(std::memory_order_acq_rel); }

/// General cases of gather() and scatter() below.
Verdict gather_runs(ScatterView from, std::uint64_t offset, std::span<std::byte> into);
Verdict scatter_runs(ScatterView to, std::uint64_t offset, std::span<const std::byte> from);

/// Fills `into` with the bytes of the list that start at `offset`.
inline Verdict gather(ScatterView from, std::uint64_t offset, std::span<std::byte> into) {
  keep_order();
  if (from.size() == 1) {
    const ScatterEntry& e = from[0];
    const std::byte* at = e.direct(offset, into.size());
    if (at != nullptr) {
      std::memcpy(into.data(), at, into.size());
      return Verdict::kOk;
    }
  }
  return gather_runs(from, offset, into);
}

/// Writes `from` to the bytes of the list that start at `offset`.
inline Verdict scatter(ScatterView to, std::uint64_t offset, std::span<const std::byte> from) {
  keep_order();
  if (to.size() == 1) {
    const ScatterEntry& e = to[0];
    std::byte* at = e.direct(offset, from.size());
    if (at != nullptr) {
      std::memcpy(at, from.data(), from.size());
      return Verdict::kOk;
    }
  }
  return scatter_runs(to, offset, from);
}

/// Moves `length` bytes between two lists: a local transfer. The time is not bounded; the engine
/// moves one chunk at a time. If the move fails and `to_blame` is not null, it is set to true if
/// the write failed, else to false.
Verdict copy(ScatterView to, std::uint64_t to_offset, ScatterView from, std::uint64_t from_offset,
             std::uint64_t length, bool* to_blame = nullptr);

// --- the same for one region; offsets count from its first byte

inline Verdict read(Region& region, std::uint64_t offset, std::span<std::byte> into) {
  const ScatterEntry whole{&region, 0, region.length()};
  return gather({&whole, 1}, offset, into);
}
inline Verdict write(Region& region, std::uint64_t offset, std::span<const std::byte> from) {
  const ScatterEntry whole{&region, 0, region.length()};
  return scatter({&whole, 1}, offset, from);
}
inline Verdict copy(Region& to, std::uint64_t to_offset, Region& from, std::uint64_t from_offset,
                    std::uint64_t length) {
  const ScatterEntry dst{&to, 0, to.length()};
  const ScatterEntry src{&from, 0, from.length()};
  return copy({&dst, 1}, to_offset, {&src, 1}, from_offset, length);
}

/// Runs an atomic on the 8 bytes at `offset`, in host byte order, and records it in `log`. Its step
/// has the value before. An operation on process memory is recorded only when it has run. A
/// store writes all of `swap` at once. In mapped memory the operation is atomic towards all other
/// accesses; in process memory only towards the other requests of this engine (IBV_ATOMIC_HCA).
/// Returns kLocalProtection also if the bytes are not 8-byte aligned where they are reached.
/// REQUIRES: not a null region.
Verdict atomic(Region& region, std::uint64_t offset, AtomicOp op, std::uint64_t compare_add,
               std::uint64_t swap, AtomicLog log);
/// Returns whether an operation of an earlier engine on the 8 bytes at `offset` has run.
WasRun recall_atomic(Region& region, std::uint64_t offset, const AtomicStep& step);

}  // namespace softhca::memory
