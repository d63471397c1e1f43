// SPDX-License-Identifier: Apache-2.0

#include <atomic>

#include "daemon/tenant_memory/scatter_list.hpp"

namespace softhca::memory {

namespace {

using Word = std::uint64_t;

Word result_of(AtomicOp op, Word before, Word compare_add, Word swap) {
  if (op == AtomicOp::kFetchAdd) return before + compare_add;
  return op == AtomicOp::kStore || before == compare_add ? swap : before;
}

// Attempts that fail because a program writes to the word all the time.
constexpr int kMostAttempts = 64;

/// Returns the value before.
Word run_at_once(std::atomic_ref<Word> word, AtomicOp op, Word compare_add, Word swap) {
  if (op == AtomicOp::kFetchAdd) return word.fetch_add(compare_add);
  if (op == AtomicOp::kStore) return word.exchange(swap);
  word.compare_exchange_strong(compare_add, swap);
  return compare_add;
}

/// Each attempt is recorded before it is made. The last one cannot fail: no program keeps the
/// engine here. If the engine ends at that one, its record may be wrong.
void run_mapped(std::byte* at, AtomicOp op, Word compare_add, Word swap, AtomicLog log) {
  std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
  Word before = word.load();
  for (int attempt = 0;; ++attempt) {
    const Word after = result_of(op, before, compare_add, swap);
    log.begin(before, after);
    // Memory that does not change is not written: other processors may read it all the time.
    if (after == before && op == AtomicOp::kCompareSwap) return;
    if (attempt == kMostAttempts) {
      log.step.before = run_at_once(word, op, compare_add, swap);
      return;
    }
    if (word.compare_exchange_weak(before, after)) return;
  }
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
               std::uint64_t swap, AtomicLog log) {
  if (!region.contains(offset, sizeof(Word))) return Verdict::kLocalProtection;
  const Region::Run run = region.run_at(offset);
  // For shared memory the alignment of the address here counts, wherever the process maps it.
  const std::uint64_t place =
      run.mapped != nullptr ? reinterpret_cast<std::uintptr_t>(run.mapped) : run.addr;
  if (run.length < sizeof(Word) || place % sizeof(Word) != 0) return Verdict::kLocalProtection;
  keep_order();
  if (run.mapped == nullptr) {
    const Verdict verdict =
        region.process()->atomic(run.addr, op, compare_add, swap, log.step.before);
    if (verdict != Verdict::kOk) return verdict;
  } else {
    run_mapped(run.mapped, op, compare_add, swap, log);
  }
  log.end();
  return Verdict::kOk;
}

WasRun recall_atomic(Region& region, std::uint64_t offset, const AtomicStep& step) {
  if (!region.contains(offset, sizeof(Word))) return WasRun::kUnknown;
  const Region::Run run = region.run_at(offset);
  if (run.mapped == nullptr || run.length < sizeof(Word) ||
      reinterpret_cast<std::uintptr_t>(run.mapped) % sizeof(Word) != 0)
    return WasRun::kUnknown;
  return was_run(step, std::atomic_ref<Word>(*reinterpret_cast<Word*>(run.mapped)).load());
}

}  // namespace softhca::memory
