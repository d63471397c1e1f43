#include "libverbs-provider/share/share.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "libverbs-provider/share/process.hpp"

namespace softhca::provider {
namespace {

constexpr auto kShared = static_cast<std::uint32_t>(abi::ExtentKind::kShared);
constexpr auto kProcess = static_cast<std::uint32_t>(abi::ExtentKind::kProcess);

abi::MrExtent reached_by_process(std::uint64_t begin, std::uint64_t end) {
  return {begin, end - begin, 0, 0, kProcess};
}

bool continues(const abi::MrExtent& first, const abi::MrExtent& second) {
  if (first.kind != second.kind) return false;
  if (first.kind == kProcess) return true;
  return first.handle == second.handle && first.offset + first.length == second.offset;
}

}  // namespace

MemoryRegistry::MemoryRegistry(const SharedMemorySource& source)
    : MemoryRegistry(source, Limits{}, KernelCalls::real()) {}

MemoryRegistry::MemoryRegistry(const SharedMemorySource& source, const Limits& limits,
                               const KernelCalls& kernel)
    : source_(source), limits_(limits), kernel_(&kernel), generation_(fork_generation()) {
  install_process_handlers();
  const ProcessLock lock;
  id_ = MemfdTable::instance().new_registry();
}

MemoryRegistry::~MemoryRegistry() {
  const ProcessLock lock;
  if (fork_generation() != generation_) return;
  MemfdTable::instance().disown_all(id_);
}

int MemoryRegistry::prepare(const Request& request, ExtentList& extents) {
  extents.count_ = 0;
  extents.overflow_ = false;
  if (request.length > ~request.addr) return EINVAL;
  if (request.length == 0) return 0;
  const ProcessLock lock;
  const std::uint64_t end = request.addr + request.length;
  if (fork_generation() != generation_) {
    append(extents, reached_by_process(request.addr, end));
    return 0;
  }
  MemfdTable& memfds = MemfdTable::instance();
  const bool sweep = oldest_idle_ != MemfdTable::kNowhere || memfds.has_orphans();
  if (sweep) memfds.begin_sweep();
  Plan plan;
  if (const int error = plan.make(request.addr, request.length, id_, sweep)) return error;
  if (sweep) free_unmapped();
  emit(plan, request.dont_fork, extents);
  if (extents.overflow_) {
    release_locked(extents.all());
    extents.count_ = 0;
    extents.overflow_ = false;
    append(extents, reached_by_process(request.addr, end));
  }
  return 0;
}

void MemoryRegistry::emit(const Plan& plan, bool dont_fork, ExtentList& extents) {
  Replacer replacer(*kernel_);
  // What is to be reused must not be given back meanwhile to make room.
  for (const Piece& piece : plan.pieces()) {
    if (piece.kind == PieceKind::kReuse) use(piece.place);
  }
  std::span<const Piece> rest = plan.pieces();
  while (!rest.empty()) {
    const Piece& piece = rest.front();
    std::size_t taken = 1;
    if (piece.replaceable()) {
      taken = emit_run(rest, replacer, dont_fork, extents);
    } else if (piece.kind == PieceKind::kReuse) {
      const std::uint32_t handle = MemfdTable::instance().at(piece.place).handle;
      append(extents, {piece.begin, piece.end - piece.begin, piece.offset, handle, kShared});
    } else {
      append(extents, reached_by_process(piece.begin, piece.end));
    }
    rest = rest.subspan(taken);
  }
  for (const Piece& piece : plan.pieces()) {
    if (piece.kind == PieceKind::kReuse) unuse(piece.place);
  }
}

/// Replaces the pieces at the front that can be, together by one memfd; returns how many.
std::size_t MemoryRegistry::emit_run(std::span<const Piece> rest, Replacer& replacer,
                                     bool dont_fork, ExtentList& extents) {
  std::size_t count = 0;
  while (count < rest.size() && rest[count].replaceable()) ++count;
  const std::uint64_t begin = rest[0].begin;
  const std::uint64_t end = rest[count - 1].end;
  SharedMemory memory{-1, 0};
  if (!obtain(end - begin, memory)) {
    append(extents, reached_by_process(begin, end));
    return count;
  }
  std::uint64_t replaced = 0;
  for (const Piece& piece : rest.first(count)) {
    const auto kind =
        piece.kind == PieceKind::kOrphan ? ReplaceKind::kMemfd : ReplaceKind::kAnonymous;
    const std::uint64_t offset = piece.begin - begin;
    const std::uint64_t length = piece.end - piece.begin;
    const std::uint64_t done = replacer.replace(kind, piece.begin, length, memory.fd, offset);
    if (done != 0) append(extents, {piece.begin, done, offset, memory.handle, kShared});
    if (done != length) append(extents, reached_by_process(piece.begin + done, piece.end));
    if (done != 0 && dont_fork) {
      kernel_->advise(reinterpret_cast<void*>(piece.begin), done, MADV_DONTFORK);
    }
    replaced += done;
  }
  ::close(memory.fd);
  if (replaced == 0) give_back(MemfdTable::instance().find(id_, memory.handle), false);
  return count;
}

bool MemoryRegistry::obtain(std::uint64_t bytes, SharedMemory& memory) {
  if (source_.alloc(source_.context, bytes, &memory) != 0) {
    // The tenant's allowance may be used up by what lies idle.
    if (oldest_idle_ == MemfdTable::kNowhere) return false;
    trim(0);
    if (source_.alloc(source_.context, bytes, &memory) != 0) return false;
  }
  if (accept(memory, bytes)) return true;
  ::close(memory.fd);
  source_.free(source_.context, memory.handle);
  return false;
}

bool MemoryRegistry::accept(const SharedMemory& memory, std::uint64_t bytes) {
  struct stat file;
  if (::fstat(memory.fd, &file) != 0 || static_cast<std::uint64_t>(file.st_size) < bytes) {
    return false;
  }
  // Now, while it can be refused: later a page that is not to be had would be a SIGBUS.
  if (kernel_->reserve(memory.fd, 0, 0, static_cast<off_t>(bytes)) != 0) return false;
  const Memfd memfd{bytes, id_, memory.handle, 0, 0, MemfdTable::kNowhere, MemfdTable::kNowhere};
  const std::uint32_t place = MemfdTable::instance().insert(memory.fd, memfd);
  if (place == MemfdTable::kNowhere) return false;
  link_idle(place);
  return true;
}

void MemoryRegistry::append(ExtentList& extents, const abi::MrExtent& extent) {
  if (extents.overflow_) return;
  if (extents.count_ != 0) {
    abi::MrExtent& last = extents.extents_[extents.count_ - 1];
    if (continues(last, extent)) {
      last.length += extent.length;
      return;
    }
  }
  if (extents.count_ == abi::kMaxMrExtents) {
    extents.overflow_ = true;
    return;
  }
  extents.extents_[extents.count_++] = extent;
  if (extent.kind == kShared) use(MemfdTable::instance().find(id_, extent.handle));
}

void MemoryRegistry::use(std::uint32_t place) {
  if (MemfdTable::instance().at(place).uses++ == 0) unlink_idle(place);
}

void MemoryRegistry::unuse(std::uint32_t place) {
  if (--MemfdTable::instance().at(place).uses == 0) link_idle(place);
}

void MemoryRegistry::link_idle(std::uint32_t place) {
  MemfdTable& memfds = MemfdTable::instance();
  Memfd& memfd = memfds.at(place);
  memfd.older = newest_idle_;
  memfd.newer = MemfdTable::kNowhere;
  (newest_idle_ == MemfdTable::kNowhere ? oldest_idle_ : memfds.at(newest_idle_).newer) = place;
  newest_idle_ = place;
  idle_bytes_ += memfd.bytes;
}

void MemoryRegistry::unlink_idle(std::uint32_t place) {
  MemfdTable& memfds = MemfdTable::instance();
  const Memfd& memfd = memfds.at(place);
  (memfd.older == MemfdTable::kNowhere ? oldest_idle_ : memfds.at(memfd.older).newer) = memfd.newer;
  (memfd.newer == MemfdTable::kNowhere ? newest_idle_ : memfds.at(memfd.newer).older) = memfd.older;
  idle_bytes_ -= memfd.bytes;
}

void MemoryRegistry::release(std::span<const abi::MrExtent> extents) {
  const ProcessLock lock;
  if (fork_generation() != generation_) return;
  release_locked(extents);
  trim(limits_.idle_bytes);
}

void MemoryRegistry::release_locked(std::span<const abi::MrExtent> extents) {
  for (const abi::MrExtent& extent : extents) {
    if (extent.kind == kShared) unuse(MemfdTable::instance().find(id_, extent.handle));
  }
}

void MemoryRegistry::trim(std::uint64_t limit) {
  while (idle_bytes_ > limit) give_back(oldest_idle_, true);
}

/// REQUIRES: a sweep has gone through all mappings.
void MemoryRegistry::free_unmapped() {
  MemfdTable& memfds = MemfdTable::instance();
  for (std::uint32_t place = oldest_idle_; place != MemfdTable::kNowhere;) {
    const std::uint32_t next = memfds.at(place).newer;
    if (!memfds.marked(place)) give_back(place, false);
    place = next;
  }
  memfds.end_sweep();
}

/// REQUIRES: no uses.
void MemoryRegistry::give_back(std::uint32_t place, bool still_mapped) {
  MemfdTable& memfds = MemfdTable::instance();
  unlink_idle(place);
  const std::uint32_t handle = memfds.at(place).handle;
  if (still_mapped) {
    memfds.disown(place);
  } else {
    memfds.remove(place);
  }
  source_.free(source_.context, handle);
}

}  // namespace softhca::provider
