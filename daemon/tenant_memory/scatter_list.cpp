// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/scatter_list.hpp"

#include <algorithm>

namespace softhca::memory {

namespace {

/// A run of bytes on one side of a transfer.
struct Run {
  std::byte* mapped = nullptr;  ///< null: at `addr` of `process`
  ProcessMemory* process = nullptr;
  std::uint64_t addr = 0;
  std::uint64_t length = 0;

  /// True if the run belongs to a region without memory.
  bool is_null() const { return mapped == nullptr && process == nullptr; }
};

/// Iterates over the bytes of a list, run by run.
class ListWalk {
 public:
  ListWalk(ScatterView list, std::uint64_t offset) : list_(list), inside_(offset) {}

  /// Gets the run at the current position, which is never empty. Returns false at the end of the
  /// list.
  bool run(Run& out) {
    while (!list_.empty() && inside_ >= list_.front().length) {
      inside_ -= list_.front().length;
      list_ = list_.subspan(1);
    }
    if (list_.empty()) return false;
    const ScatterEntry& entry = list_.front();
    if (!entry.region->contains(entry.offset, entry.length)) return false;
    const Region::Run run = entry.region->run_at(entry.offset + inside_);
    out = {run.mapped, entry.region->process(), run.addr,
           std::min(run.length, entry.length - inside_)};
    return true;
  }
  void skip(std::uint64_t bytes) { inside_ += bytes; }

 private:
  ScatterView list_;
  std::uint64_t inside_;  ///< bytes from the start of the first entry of list_
};

/// The same for memory of the daemon itself.
class SpanWalk {
 public:
  explicit SpanWalk(std::span<std::byte> bytes) : bytes_(bytes) {}
  bool run(Run& out) {
    out = {bytes_.data(), nullptr, 0, bytes_.size()};
    return !bytes_.empty();
  }
  void skip(std::uint64_t bytes) { bytes_ = bytes_.subspan(bytes); }

 private:
  std::span<std::byte> bytes_;
};

/// Batches moves between memory mapped here and one process, in one direction, so that a list of
/// many entries costs one system call.
class ProcessBatch {
 public:
  enum class Direction : std::uint8_t { kRead, kWrite };

  Verdict add(Direction direction, ProcessMemory* process, std::uint64_t addr, std::byte* mapped,
              std::uint64_t bytes) {
    if (count_ == kMaxEntries || process != process_ || direction != direction_) {
      const Verdict verdict = flush();
      if (verdict != Verdict::kOk) return verdict;
    }
    process_ = process;
    direction_ = direction;
    mapped_[count_] = {mapped, bytes};
    remote_[count_++] = {reinterpret_cast<void*>(addr), bytes};
    return Verdict::kOk;
  }

  /// Returns the direction of the last moves or, after a failure, of the moves that failed.
  Direction direction() const { return direction_; }

  Verdict flush() {
    if (count_ == 0) return Verdict::kOk;
    const std::span local{mapped_.data(), count_};
    const std::span remote{remote_.data(), count_};
    count_ = 0;
    return direction_ == Direction::kRead ? process_->read(local, remote)
                                          : process_->write(local, remote);
  }

 private:
  std::array<iovec, kMaxEntries> mapped_;
  std::array<iovec, kMaxEntries> remote_;
  std::size_t count_ = 0;
  ProcessMemory* process_ = nullptr;
  Direction direction_ = Direction::kRead;
};

using Direction = ProcessBatch::Direction;

/// Copies between two processes. The kernel copies only to or from the daemon's own memory.
Verdict bounce(const Run& to, const Run& from, std::uint64_t bytes, ProcessBatch& batch) {
  // Fits the second level cache. It is on the stack because thread-local storage would be taken
  // from the small stacks that libraries give their threads.
  std::array<std::byte, 32 << 10> buffer;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes - done, buffer.size());
    Verdict verdict =
        batch.add(Direction::kRead, from.process, from.addr + done, buffer.data(), part);
    if (verdict == Verdict::kOk) verdict = batch.flush();
    if (verdict == Verdict::kOk)
      verdict = batch.add(Direction::kWrite, to.process, to.addr + done, buffer.data(), part);
    if (verdict == Verdict::kOk) verdict = batch.flush();
    if (verdict != Verdict::kOk) return verdict;
    done += part;
  }
  return Verdict::kOk;
}

Verdict clear(const Run& to, std::uint64_t bytes, ProcessBatch& batch) {
  if (to.mapped != nullptr) {
    std::memset(to.mapped, 0, bytes);
    return Verdict::kOk;
  }
  static constexpr std::array<std::byte, 16 << 10> kZeros{};
  // The cast is safe: writes to the process only read from it.
  auto* const zeros = const_cast<std::byte*>(kZeros.data());
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes - done, kZeros.size());
    const Verdict verdict = batch.add(Direction::kWrite, to.process, to.addr + done, zeros, part);
    if (verdict != Verdict::kOk) return verdict;
    done += part;
  }
  return Verdict::kOk;
}

Verdict move(const Run& to, const Run& from, std::uint64_t bytes, ProcessBatch& batch) {
  if (to.is_null()) return Verdict::kOk;
  if (from.is_null()) return clear(to, bytes, batch);
  if (to.mapped != nullptr && from.mapped != nullptr) {
    std::memmove(to.mapped, from.mapped, bytes);
    return Verdict::kOk;
  }
  if (to.mapped != nullptr)
    return batch.add(Direction::kRead, from.process, from.addr, to.mapped, bytes);
  if (from.mapped != nullptr)
    return batch.add(Direction::kWrite, to.process, to.addr, from.mapped, bytes);
  return bounce(to, from, bytes, batch);
}

template <class To, class From>
Verdict transfer(To to, From from, std::uint64_t length, ProcessBatch& batch) {
  while (length > 0) {
    Run dst;
    Run src;
    if (!to.run(dst) || !from.run(src)) return Verdict::kLocalProtection;
    const std::uint64_t part = std::min({dst.length, src.length, length});
    const Verdict verdict = move(dst, src, part, batch);
    if (verdict != Verdict::kOk) return verdict;
    to.skip(part);
    from.skip(part);
    length -= part;
  }
  return batch.flush();
}

template <class To, class From>
Verdict transfer(To to, From from, std::uint64_t length) {
  ProcessBatch batch;
  return transfer(to, from, length, batch);
}

}  // namespace

Verdict gather_runs(ScatterView from, std::uint64_t offset, std::span<std::byte> into) {
  return transfer(SpanWalk(into), ListWalk(from, offset), into.size());
}

Verdict scatter_runs(ScatterView to, std::uint64_t offset, std::span<const std::byte> from) {
  // The cast is safe: a transfer never writes its source.
  const std::span source{const_cast<std::byte*>(from.data()), from.size()};
  return transfer(ListWalk(to, offset), SpanWalk(source), from.size());
}

Verdict copy(ScatterView to, std::uint64_t to_offset, ScatterView from, std::uint64_t from_offset,
             std::uint64_t length, bool* to_blame) {
  keep_order();
  if (to.size() == 1 && from.size() == 1) {
    std::byte* dst = to[0].direct(to_offset, length);
    const std::byte* src = from[0].direct(from_offset, length);
    if (dst != nullptr && src != nullptr) {
      std::memmove(dst, src, length);
      return Verdict::kOk;
    }
  }
  ProcessBatch batch;
  const Verdict verdict =
      transfer(ListWalk(to, to_offset), ListWalk(from, from_offset), length, batch);
  if (verdict != Verdict::kOk && to_blame != nullptr)
    *to_blame = batch.direction() == Direction::kWrite;
  return verdict;
}

}  // namespace softhca::memory
