// SPDX-License-Identifier: Apache-2.0

// Why accesses to memory fail. Each function repeats the checks of an access that has failed, in
// the same step of the engine, and records which of them fails. A key that belongs to another
// tenant counts as unknown, so that a tenant learns nothing of it.
#include <algorithm>

#include "daemon/engine/memory/memory_access.hpp"

namespace softhca::engine {
namespace {

using transport::RemoteAccess;

RefusedOperation operation_of(RemoteAccess access) {
  switch (access) {
    case RemoteAccess::kWrite:
      return RefusedOperation::kWrite;
    case RemoteAccess::kRead:
      return RefusedOperation::kRead;
    case RemoteAccess::kAtomic:
      return RefusedOperation::kAtomic;
    case RemoteAccess::kFlush:
    case RemoteAccess::kFlushRegion:
      break;
  }
  return RefusedOperation::kFlush;
}

void describe(Refusal& out, const memory::Region& region) {
  out.has_region = true;
  out.region.address = region.iova();
  out.region.length = region.length();
  out.region.domain = region.pd().value;
  out.granted = region.access();
}

/// Returns which check of a range that was described fails.
RefusalCause check_described(const Refusal& out) {
  if (out.region.domain != out.domain) return RefusalCause::kOtherDomain;
  if ((out.granted & out.needed) != out.needed) return RefusalCause::kNoRight;
  const std::uint64_t inside = out.address - out.region.address;
  if (out.length != 0 && (inside > out.region.length || out.length > out.region.length - inside))
    return RefusalCause::kOutOfBounds;
  return RefusalCause::kNotMapped;
}

}  // namespace

/// Explains the access that `out` describes to the region of its key.
void MemoryAccess::explain_key(Refusal& out, const QueuePair& qp, memory::PdId pd, Time now) const {
  out.domain = pd.value;
  const memory::Region* const region = keys_.lookup(out.key);
  if (region != nullptr && region->tenant() == qp.tenant->id) {
    describe(out, *region);
    out.cause = check_described(out);
    return;
  }
  out.cause = RefusalCause::kNoRegion;
  const auto ended = keys_.ended(out.key);
  if (!ended || ended->tenant != qp.tenant->id) return;
  out.cause = RefusalCause::kRegionEnded;
  out.ms = milliseconds_between(ended->at, now);
}

/// The same for the window of its key.
void MemoryAccess::explain_window(Refusal& out, const QueuePair& qp, memory::PdId pd) {
  out.domain = pd.value;
  out.cause = RefusalCause::kNoWindow;
  const memory::Window* const window = windows_.lookup(out.key);
  if (window == nullptr) return;
  const memory::Region* const region = keys_.lookup(window->region_key);
  const bool is_own = window->pd == pd || (region != nullptr && region->tenant() == qp.tenant->id);
  if (!is_own) return;
  if (window->bound == 0) {
    out.cause = RefusalCause::kWindowNotBound;
    return;
  }
  out.has_region = true;
  out.region.address = (window->access & memory::kZeroBased) != 0 ? 0 : window->addr;
  out.region.length = window->length;
  out.region.domain = window->pd.value;
  out.granted = window->access;
  out.cause = check_described(out);
  if (out.cause == RefusalCause::kOtherDomain) return;
  if (window->of_queue_pair != 0 && window->qpn != qp.qpn) {
    out.cause = RefusalCause::kWindowElsewhere;
    out.qpn = window->qpn;
  } else if (region == nullptr || region->serial() != window->region_serial) {
    out.cause = RefusalCause::kWindowRegionEnded;
  }
}

Refusal MemoryAccess::explain_remote(const QueuePair& qp, memory::PdId pd, Rkey rkey,
                                     const memory::ByteRange& range, RemoteAccess access,
                                     Time now) {
  Refusal out{.side = RefusalSide::kServed,
              .operation = operation_of(access),
              .key = rkey.value,
              .needed = access_flag(access),
              .address = range.start,
              .length = range.length};
  if ((qp.access & out.needed) == 0) {
    out.cause = RefusalCause::kNoQueuePairRight;
    out.granted = qp.access;
  } else if (memory::is_window_key(rkey.value)) {
    explain_window(out, qp, pd);
  } else {
    explain_key(out, qp, pd, now);
  }
  return out;
}

Refusal MemoryAccess::explain_entries(std::span<const abi::ScatterGather> list, const QueuePair& qp,
                                      memory::PdId pd, const memory::ByteRange& part,
                                      std::uint32_t needed, Time now) const {
  Refusal first;  // of the entries that pass all checks: memory there may not be mapped
  std::uint64_t offset = part.start;
  std::uint64_t left = part.length;
  for (std::size_t i = 0; i < list.size() && left != 0; ++i) {
    const abi::ScatterGather& entry = list[i];
    if (offset >= entry.length) {
      offset -= entry.length;
      continue;
    }
    Refusal out{.entry = static_cast<std::uint8_t>(i),
                .entries = static_cast<std::uint8_t>(list.size()),
                .key = entry.lkey,
                .needed = needed,
                .address = entry.addr + offset,
                .length = std::min(entry.length - offset, left)};
    explain_key(out, qp, pd, now);
    if (out.cause != RefusalCause::kNotMapped) return out;
    if (!first) first = out;
    left -= out.length;
    offset = 0;
  }
  return first;
}

Refusal MemoryAccess::explain_receive(const QueuePair& qp, const memory::ByteRange& part,
                                      Time now) const {
  const std::span<const abi::ScatterGather> entries(qp.rq.work->entries, qp.rq.work->count);
  const memory::PdId pd = qp.srq != nullptr ? qp.srq->pd : qp.pd;
  Refusal out = explain_entries(entries, qp, pd, part, memory::kLocalWrite, now);
  out.side = RefusalSide::kReceive;
  out.operation = RefusedOperation::kReceive;
  return out;
}

Refusal MemoryAccess::explain_bind(const QueuePair& qp, const abi::CommandHeader& header,
                                   Time now) {
  Refusal out{.key = header.rkey, .address = header.remote_addr, .length = header.compare_add};
  const memory::Window* const window = windows_.find(header.rkey);
  if (window == nullptr || window->pd != qp.pd) {
    out.cause = RefusalCause::kNoWindow;
  } else if (window->of_queue_pair != 0 && window->bound != 0) {
    out.cause = RefusalCause::kWindowBound;
  } else {
    out.key = static_cast<std::uint32_t>(header.swap);
    const bool writes = (header.imm & (memory::kRemoteWrite | memory::kRemoteAtomic)) != 0;
    out.needed = memory::kBindWindow | (writes ? memory::kLocalWrite : 0u);
    explain_key(out, qp, qp.pd, now);
  }
  return out;
}

Refusal MemoryAccess::explain_invalidate(const QueuePair& qp, Rkey rkey) {
  Refusal out{.side = RefusalSide::kServed,
              .operation = RefusedOperation::kInvalidate,
              .key = rkey.value,
              .domain = qp.pd.value};
  const memory::Window* const window = windows_.lookup(rkey.value);
  if (window == nullptr || window->pd != qp.pd) {
    out.cause = RefusalCause::kNoWindow;
  } else if (window->of_queue_pair == 0) {
    out.cause = RefusalCause::kWindowType;
  } else if (window->bound == 0) {
    out.cause = RefusalCause::kWindowNotBound;
  } else {
    out.cause = RefusalCause::kWindowElsewhere;
    out.qpn = window->qpn;
  }
  return out;
}

}  // namespace softhca::engine
