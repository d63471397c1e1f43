// The memory that commands, receives and remote keys name. Keys are looked up for every access, so
// a region may be deregistered at any time: the next access fails, nothing dangles.
#include "daemon/engine/engine.hpp"

namespace softhca::engine {

std::span<const abi::ScatterGather> Engine::entries_of(const collect::Pcb& pcb) const {
  return {reinterpret_cast<const abi::ScatterGather*>(pcb.payload.data()),
          pcb.header.payload_bytes / sizeof(abi::ScatterGather)};
}

Verdict Engine::gather_message(const QueuePair& qp, PcbId id, std::uint32_t offset,
                               std::span<std::byte> out) {
  const collect::Pcb& pcb = pcbs_.pcb(id);
  if ((pcb.header.flags & abi::kCommandInline) != 0) {
    std::memcpy(out.data(), pcb.payload.data() + offset, out.size());
    return Verdict::kOk;
  }
  memory::ScatterList list;
  const Verdict verdict =
      memory::resolve(keys_, entries_of(pcb), offset, out.size(), memory::kLocalRead, qp.pd, list);
  return verdict == Verdict::kOk ? memory::gather(list.view(), 0, out) : verdict;
}

Verdict Engine::scatter_message(const QueuePair& qp, PcbId id, std::uint32_t offset,
                                std::span<const std::byte> in) {
  memory::ScatterList list;
  const Verdict verdict = memory::resolve(keys_, entries_of(pcbs_.pcb(id)), offset, in.size(),
                                          memory::kLocalWrite, qp.pd, list);
  return verdict == Verdict::kOk ? memory::scatter(list.view(), 0, in) : verdict;
}

Verdict Engine::scatter_receive(const QueuePair& qp, std::uint64_t offset,
                                std::span<const std::byte> in) {
  const std::span<const abi::ScatterGather> entries(qp.receive.entries, qp.receive.count);
  const memory::PdId pd = qp.srq != nullptr ? qp.srq->pd : qp.pd;
  memory::ScatterList list;
  const Verdict verdict =
      memory::resolve(keys_, entries, offset, in.size(), memory::kLocalWrite, pd, list);
  return verdict == Verdict::kOk ? memory::scatter(list.view(), 0, in) : verdict;
}

/// What a peer may use so, of a region or through a window: key, domain, bounds, flags of both and
/// of the queue pair.
Engine::RemoteMemory Engine::remote_memory(const QueuePair& qp, memory::PdId pd, Rkey rkey,
                                           std::uint64_t addr, std::uint64_t length,
                                           transport::RemoteAccess access) {
  std::uint32_t needed = memory::kRemoteWrite;
  if (access == transport::RemoteAccess::kRead) needed = memory::kRemoteRead;
  if (access == transport::RemoteAccess::kAtomic) needed = memory::kRemoteAtomic;
  if ((qp.access & needed) == 0) return {};
  if (memory::is_window_key(rkey.value)) {
    const memory::Window* window = windows_.lookup(rkey.value);
    if (window == nullptr) return {};
    RemoteMemory found;
    found.region = memory::resolve(*window, keys_, addr, length, needed, pd, qp.qpn, found.offset);
    return found;
  }
  memory::Region* region = keys_.lookup(rkey.value);
  if (region == nullptr || memory::check(*region, addr, length, needed, pd) != Verdict::kOk)
    return {};
  return {region, region->offset_of(addr)};
}

Verdict Engine::atomic_remote(QueuePair& qp, Rkey rkey, std::uint64_t addr,
                              transport::RequestKind kind, std::uint64_t compare_add,
                              std::uint64_t swap, std::uint64_t& original) {
  if (addr % sizeof(std::uint64_t) != 0) return Verdict::kRemoteInvalidRequest;
  const bool store = kind == transport::RequestKind::kAtomicWrite;
  const RemoteMemory place =
      remote_memory(qp, remote_pd(qp), rkey, addr, sizeof(std::uint64_t),
                    store ? transport::RemoteAccess::kWrite : transport::RemoteAccess::kAtomic);
  if (place.region == nullptr) return Verdict::kRemoteAccess;
  auto op = memory::AtomicOp::kStore;
  if (!store)
    op = kind == transport::RequestKind::kFetchAdd ? memory::AtomicOp::kFetchAdd
                                                   : memory::AtomicOp::kCompareSwap;
  return memory::as_remote(
      memory::atomic(*place.region, place.offset, op, compare_add, swap, original));
}

}  // namespace softhca::engine
