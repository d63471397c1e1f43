// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/memory/memory_access.hpp"

#include <cstring>

#include "daemon/roce/transport/segment.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kWindowAccess =
    memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic | memory::kZeroBased;

memory::AtomicOp operation_of(transport::RequestKind kind) {
  switch (kind) {
    case transport::RequestKind::kAtomicWrite:
      return memory::AtomicOp::kStore;
    case transport::RequestKind::kFetchAdd:
      return memory::AtomicOp::kFetchAdd;
    default:
      return memory::AtomicOp::kCompareSwap;
  }
}

}  // namespace

Verdict MemoryAccess::measure(const QueuePair& qp, const collect::Pcb& pcb, bool writes,
                              std::uint32_t& length) const {
  if (collect::is_inline(pcb)) {
    length = pcb.header.payload_bytes;
    return writes ? Verdict::kLocalQpOperation : Verdict::kOk;
  }
  std::uint64_t sum = 0;
  const std::uint32_t needed = writes ? memory::kLocalWrite : memory::kLocalRead;
  for (const abi::ScatterGather& entry : collect::entries_of(pcb)) {
    if (entry.length == 0) continue;
    const memory::Region* region = keys_.lookup(entry.lkey);
    if (region == nullptr ||
        memory::check(*region, entry.addr, entry.length, needed, qp.pd) != Verdict::kOk)
      return Verdict::kLocalProtection;
    sum += entry.length;
  }
  if (sum > transport::kMaxMessageBytes) return Verdict::kLocalLength;
  length = static_cast<std::uint32_t>(sum);
  return Verdict::kOk;
}

Verdict MemoryAccess::gather(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                             std::span<std::byte> out) {
  if (collect::is_inline(pcb)) {
    std::memcpy(out.data(), pcb.payload.data() + offset, out.size());
    return Verdict::kOk;
  }
  const std::byte* const at = memory::resolve_direct(keys_, collect::entries_of(pcb), offset,
                                                     out.size(), memory::kLocalRead, qp.pd);
  if (at == nullptr) [[unlikely]]
    return gather_list(qp, pcb, offset, out);
  memory::keep_order();
  std::memcpy(out.data(), at, out.size());
  return Verdict::kOk;
}

/// Does what gather() does, whatever the memory is like. REQUIRES: it is not inline.
Verdict MemoryAccess::gather_list(const QueuePair& qp, const collect::Pcb& pcb,
                                  std::uint32_t offset, std::span<std::byte> out) {
  memory::ScatterList list;
  const Verdict verdict = resolve_message(qp, pcb, offset, out.size(), list);
  return verdict == Verdict::kOk ? memory::gather(list.view(), 0, out) : verdict;
}

Verdict MemoryAccess::scatter(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                              std::span<const std::byte> in) {
  memory::ScatterList list;
  const Verdict verdict = memory::resolve(keys_, collect::entries_of(pcb), offset, in.size(),
                                          memory::kLocalWrite, qp.pd, list);
  return verdict == Verdict::kOk ? memory::scatter(list.view(), 0, in) : verdict;
}

Verdict MemoryAccess::move(const QueuePair& qp, const collect::Pcb& pcb, std::uint32_t offset,
                           std::uint32_t bytes, memory::ScatterView far, bool from_far,
                           bool& remote_fault) {
  remote_fault = true;
  if (collect::is_inline(pcb))
    return memory::as_remote(memory::scatter(far, 0, {pcb.payload.data() + offset, bytes}));

  memory::ScatterList near;
  const Verdict verdict =
      memory::resolve(keys_, collect::entries_of(pcb), offset, bytes,
                      from_far ? memory::kLocalWrite : memory::kLocalRead, qp.pd, near);
  remote_fault = false;
  if (verdict != Verdict::kOk) return verdict;
  bool destination_fault = false;
  const Verdict moved = from_far ? memory::copy(near.view(), 0, far, 0, bytes, &destination_fault)
                                 : memory::copy(far, 0, near.view(), 0, bytes, &destination_fault);
  if (moved == Verdict::kOk || moved == Verdict::kBusy) return moved;
  remote_fault = from_far ? !destination_fault : destination_fault;
  return remote_fault ? Verdict::kRemoteAccess : Verdict::kLocalProtection;
}

Verdict MemoryAccess::scatter_receive(const QueuePair& qp, std::uint64_t offset,
                                      std::span<const std::byte> in) {
  std::byte* const at = direct_receive(qp, offset, in.size());
  if (at == nullptr) [[unlikely]]
    return scatter_receive_list(qp, offset, in);
  memory::keep_order();
  std::memcpy(at, in.data(), in.size());
  return Verdict::kOk;
}

/// Does what scatter_receive() does, whatever the memory is like.
Verdict MemoryAccess::scatter_receive_list(const QueuePair& qp, std::uint64_t offset,
                                           std::span<const std::byte> in) {
  memory::ScatterList list;
  const Verdict verdict = resolve_receive(qp, offset, static_cast<std::uint32_t>(in.size()), list);
  return verdict == Verdict::kOk ? memory::scatter(list.view(), 0, in) : verdict;
}

RegionPlace MemoryAccess::remote(const QueuePair& qp, memory::PdId pd, Rkey rkey,
                                 std::uint64_t addr, std::uint64_t length,
                                 transport::RemoteAccess access) {
  const std::uint32_t needed = access_flag(access);
  if ((qp.access & needed) == 0) return {};
  if (memory::is_window_key(rkey.value)) {
    const memory::Window* window = windows_.lookup(rkey.value);
    if (window == nullptr) return {};
    RegionPlace found;
    found.region = memory::resolve(*window, keys_, addr, length, needed, pd, qp.qpn, found.offset);
    return found;
  }
  if (access == transport::RemoteAccess::kFlushRegion) {
    const memory::Region* const region = keys_.lookup(rkey.value);
    if (region == nullptr) return {};
    addr = region->iova();
    length = region->length();
  }
  return in_region(qp, pd, rkey, addr, length, access);
}

Verdict MemoryAccess::atomic(const QueuePair& qp, Rkey rkey, std::uint64_t addr,
                             transport::RequestKind kind, std::uint64_t compare_add,
                             std::uint64_t swap, AtomicLog log) {
  if (addr % sizeof(std::uint64_t) != 0) return Verdict::kRemoteInvalidRequest;
  const memory::AtomicOp operation = operation_of(kind);
  const RegionPlace place =
      remote(qp, qp.remote_pd(), rkey, addr, sizeof(std::uint64_t), access_of(kind));
  if (place.region == nullptr) return Verdict::kRemoteAccess;
  return memory::as_remote(
      memory::atomic(*place.region, place.offset, operation, compare_add, swap, log));
}

WasRun MemoryAccess::recall_atomic(const QueuePair& qp, Rkey rkey, std::uint64_t addr, bool writes,
                                   const AtomicStep& step) {
  const auto access = writes ? transport::RemoteAccess::kWrite : transport::RemoteAccess::kAtomic;
  const RegionPlace place = remote(qp, qp.remote_pd(), rkey, addr, sizeof step.before, access);
  if (place.region == nullptr) return WasRun::kUnknown;
  return memory::recall_atomic(*place.region, place.offset, step);
}

Verdict MemoryAccess::bind(const QueuePair& qp, const abi::CommandHeader& header, bool resumed) {
  memory::Window* window = windows_.find(header.rkey);
  if (window == nullptr || window->pd != qp.pd) return Verdict::kWindowBind;
  const auto region_key = static_cast<std::uint32_t>(header.swap);
  const std::uint32_t access = header.imm & kWindowAccess;
  if (resumed && memory::is_bound_so(*window, keys_, region_key, header.remote_addr,
                                     header.compare_add, access, header.rkey, qp.qpn))
    return Verdict::kOk;
  settle(*window);
  return memory::bind(*window, keys_, region_key, header.remote_addr, header.compare_add, access,
                      header.rkey, qp.qpn);
}

Verdict MemoryAccess::invalidate(const QueuePair& qp, Rkey rkey, bool resumed) {
  memory::Window* window = windows_.lookup(rkey.value);
  if (window == nullptr || window->of_queue_pair == 0 || window->pd != qp.pd ||
      window->qpn != qp.qpn || (window->bound == 0 && !resumed))
    return Verdict::kLocalQpOperation;
  settle(*window);
  window->bound = 0;
  return Verdict::kOk;
}

bool MemoryAccess::remove_window(std::uint32_t key) {
  if (const memory::Window* window = windows_.find(key)) settle(*window);
  return windows_.erase(key);
}

/// Completes what peers have written through the window, before the program is notified that they
/// can do so no more.
void MemoryAccess::settle(const memory::Window& window) {
  if (window.bound == 0) return;
  const memory::Region* region = keys_.lookup(window.region_key);
  if (region != nullptr && region->process() != nullptr) region->process()->settle();
}

}  // namespace softhca::engine
