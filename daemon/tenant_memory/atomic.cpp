// SPDX-License-Identifier: Apache-2.0

#include <atomic>

#include "daemon/tenant_memory/scatter_list.hpp"

namespace softhca::memory {

namespace {

using Word = std::uint64_t;

Word run_mapped(std::byte* at, AtomicOp op, Word compare_add, Word swap) {
  std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
  if (op == AtomicOp::kFetchAdd) return word.fetch_add(compare_add);
  if (op == AtomicOp::kStore) return word.exchange(swap);
  Word expected = compare_add;
  word.compare_exchange_strong(expected, swap);
  return expected;
}

}  // namespace

Verdict ProcessMemory::atomic(std::uint64_t addr, AtomicOp op, Word compare_add, Word swap,
                              Word& original) {
  Word value = 0;
  iovec local{&value, sizeof value};
  iovec remote{reinterpret_cast<void*>(addr), sizeof value};
  Verdict verdict = read({&local, 1}, {&remote, 1});
  if (verdict != Verdict::kOk) return verdict;
  original = value;
  if (op == AtomicOp::kCompareSwap && value != compare_add) return Verdict::kOk;
  value = op == AtomicOp::kFetchAdd ? value + compare_add : swap;
  local = {&value, sizeof value};
  remote = {reinterpret_cast<void*>(addr), sizeof value};
  return write({&local, 1}, {&remote, 1});
}

Verdict atomic(Region& region, std::uint64_t offset, AtomicOp op, std::uint64_t compare_add,
               std::uint64_t swap, std::uint64_t& original) {
  if (!region.contains(offset, sizeof(Word))) return Verdict::kLocalProtection;
  const Region::Run run = region.run_at(offset);
  // For shared memory the alignment of the address here counts, wherever the process maps it.
  const std::uint64_t place =
      run.mapped != nullptr ? reinterpret_cast<std::uintptr_t>(run.mapped) : run.addr;
  if (run.length < sizeof(Word) || place % sizeof(Word) != 0) return Verdict::kLocalProtection;
  keep_order();
  if (run.mapped == nullptr)
    return region.process()->atomic(run.addr, op, compare_add, swap, original);
  original = run_mapped(run.mapped, op, compare_add, swap);
  return Verdict::kOk;
}

}  // namespace softhca::memory
