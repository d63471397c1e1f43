// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/share.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "libverbs-provider/share/process.hpp"

namespace softhca::provider {
namespace {

constexpr auto kShared = static_cast<std::uint32_t>(abi::ExtentKind::kShared);
constexpr auto kProcess = static_cast<std::uint32_t>(abi::ExtentKind::kProcess);

abi::MrExtent reached_by_process(std::uint64_t begin, std::uint64_t end) {
  return {begin, end - begin, 0, 0, kProcess};
}

bool is_sharing_wanted() {
  const char* value = std::getenv("SOFTHCA_SHARE");
  return value == nullptr || std::strcmp(value, "0") != 0;
}

MemoryRegistry* registries = nullptr;  // under the process lock

bool continues(const abi::MrExtent& first, const abi::MrExtent& second) {
  if (first.kind != second.kind) return false;
  if (first.kind == kProcess) return true;
  return first.handle == second.handle && first.offset + first.length == second.offset;
}

}  // namespace

MemoryRegistry::MemoryRegistry(const SharedMemorySource& source)
    : MemoryRegistry(source, Limits{.exchange = is_sharing_wanted()}, KernelCalls::real()) {}

MemoryRegistry::MemoryRegistry(const SharedMemorySource& source, const Limits& limits,
                               const KernelCalls& kernel)
    : source_(source),
      limits_(limits),
      exchanges_(install_process_handlers() && limits.exchange),
      kernel_(&kernel),
      replacer_(kernel),
      generation_(fork_generation()) {
  const ProcessLock lock;
  id_ = MemfdTable::instance().new_registry();
  next_ = std::exchange(registries, this);
}

MemoryRegistry::~MemoryRegistry() {
  const ProcessLock lock;
  MemoryRegistry** link = &registries;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
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
  free_unmapped();
  replacer_.start(request.addr, end);
  ran_short_ = false;
  int error = share(request, extents);
  if (error == 0 && ran_short_ && give_back_all_unmapped()) {
    release_locked(extents.all());
    error = share(request, extents);
  }
  if (error == 0 && extents.overflow_) {
    release_locked(extents.all());
    extents.count_ = 0;
    extents.overflow_ = false;
    append(extents, reached_by_process(request.addr, end));
  }
  return error;
}

/// Shares the range as far as possible now. Returns 0 or an errno value.
int MemoryRegistry::share(const Request& request, ExtentList& extents) {
  extents.count_ = 0;
  extents.overflow_ = false;
  if (const int error = make_plan(request)) return error;
  emit(request, extents);
  return 0;
}

/// Makes the plan, and joins memfds of other registries. Returns 0 or an errno value.
int MemoryRegistry::make_plan(const Request& request) {
  constexpr int kAttempts = 3;  // each gives up more memory of other registries, to be shared anew
  int error = 0;
  for (int i = 0; i < kAttempts; ++i) {
    error = plan_.make(request.addr, request.length, id_, request.writable);
    if (error != 0 || !join_others()) break;
  }
  return error;
}

/// Joins foreign memfds of the plan. True: plan again.
bool MemoryRegistry::join_others() {
  bool changed = false;
  for (const Piece& piece : plan_.pieces())
    if (piece.kind == PieceKind::kForeign) changed |= join(piece.place);
  return changed;
}

/// Joins another registry's memfd. If the daemon has given the memfd up, and no region uses it, it
/// becomes an orphan. False: it is unchanged.
bool MemoryRegistry::join(std::uint32_t place) {
  MemfdTable& memfds = MemfdTable::instance();
  const Memfd memfd = memfds.at(place);
  if (memfd.owner == id_ || memfds.joined(place, id_) != nullptr) return true;
  if (memfd.is_piece()) return join_piece(place);
  if (memfd.owner == kNoRegistry) return true;
  MemoryRegistry* owner = registries;
  while (owner != nullptr && owner->id_ != memfd.owner) owner = owner->next_;
  if (owner == nullptr) return false;
  abi::SharedToken token{};
  const int error = owner->source_.name(owner->source_.context, memfd.handle, &token);
  if (error == ESTALE && memfd.uses == 0) owner->give_back(place, true);
  if (error != 0) return error == ESTALE && memfd.uses == 0;
  std::uint32_t handle = 0;
  if (source_.join(source_.context, token, &handle) != 0) return false;
  if (memfds.join(place, id_, handle)) return true;
  source_.free(source_.context, handle, false);
  return false;
}

/// Joins a piece of this machine's memory, or adopts it if it is an orphan. False: it is unchanged.
bool MemoryRegistry::join_piece(std::uint32_t place) {
  MemfdTable& memfds = MemfdTable::instance();
  if (!memfds.is_piece_of(place, source_.machine)) return false;
  const Memfd& piece = memfds.at(place);
  if (piece.owner != kNoRegistry) return memfds.join(place, id_, piece.handle);
  if (!memfds.adopt(place, id_)) return false;
  link_idle(place);
  return true;
}

struct MemoryRegistry::Emission {
  ExtentList& extents;
  const std::uint64_t begin;  ///< of the region
  const std::uint64_t end;
  const std::uint64_t memfd_bytes;
};

/// Returns the size of memfds with which their borders, too, fit into the list of extents.
std::uint64_t MemoryRegistry::memfd_bytes(std::uint64_t length) const {
  const std::uint64_t most = 1 + (abi::kMaxMrExtents - plan_.pieces().size()) / 4;
  if (most == 1) return length;
  if (length / most <= limits_.memfd_bytes) return limits_.memfd_bytes;
  return (length / most / Replacer::kPieceBytes + 1) * Replacer::kPieceBytes;
}

void MemoryRegistry::emit(const Request& request, ExtentList& extents) {
  Emission emission{extents, request.addr, request.addr + request.length,
                    memfd_bytes(request.length)};
  std::span<const Piece> rest = plan_.pieces();
  while (!rest.empty()) {
    const Piece& piece = rest.front();
    std::size_t taken = 1;
    if (piece.replaceable() && exchanges_ && MemfdTable::instance().has_room()) {
      taken = emit_run(rest, emission);
    } else if (piece.kind == PieceKind::kReuse) {
      MemfdTable& memfds = MemfdTable::instance();
      const Joined* joined = memfds.joined(piece.place, id_);
      const std::uint32_t handle =
          joined != nullptr ? joined->handle : memfds.at(piece.place).handle;
      append(emission, {piece.begin, piece.end - piece.begin, piece.offset, handle, kShared});
    } else {
      append(emission, reached_by_process(piece.begin, piece.end));
    }
    rest = rest.subspan(taken);
  }
}

/// Replaces as many leading pieces as possible, by as few memfds as possible. Returns the number of
/// pieces handled.
std::size_t MemoryRegistry::emit_run(std::span<const Piece> rest, Emission& emission) {
  std::size_t count = 0;
  while (count < rest.size() && rest[count].replaceable()) ++count;
  const std::uint64_t end = rest[count - 1].end;
  std::uint64_t begin = rest[0].begin;
  while (begin != end) {
    const std::uint64_t border = begin + std::min(emission.memfd_bytes, end - begin);
    if (emit_memfd(rest.first(count), begin, border, emission) == 0) break;
    begin = border;
  }
  // A replacement splits one mapping in three, and may add one for a page (keep_from_growing()).
  MemfdTable::instance().count_split(3);
  // If nothing could be replaced, later attempts would fail, too.
  if (begin != end) append(emission, reached_by_process(begin, end));
  return count;
}

/// Replaces [begin, end) of adjoining pieces by one memfd. Returns the number of bytes replaced; 0:
/// no extents were added.
std::uint64_t MemoryRegistry::emit_memfd(std::span<const Piece> pieces, std::uint64_t begin,
                                         std::uint64_t end, Emission& emission) {
  SharedMemory memory{-1, 0, {}};
  if (!obtain(end - begin, memory)) return 0;
  std::uint64_t replaced = 0;
  std::uint64_t left = begin;  // start of the part before the current piece that was not replaced
  for (const Piece& piece : pieces) {
    std::uint64_t first = std::max(piece.begin, begin);
    const std::uint64_t last = std::min(piece.end, end);
    if (first >= last) continue;
    const auto kind =
        piece.kind == PieceKind::kOrphan ? ReplaceKind::kMemfd : ReplaceKind::kAnonymous;
    Replacement part{0, 0};
    do {
      first += part.held;
      part = replacer_.replace(kind, first, last - first, memory.fd,
                               memory.place.offset + (first - begin));
      if (part.replaced == 0) continue;
      if (left != first) append(emission, reached_by_process(left, first));
      append(emission, {first, part.replaced, first - begin, memory.handle, kShared});
      keep_from_growing(first, part.replaced);
      if (kind == ReplaceKind::kMemfd) {
        MemfdTable& memfds = MemfdTable::instance();
        memfds.wiped().move(piece.place, piece.offset + (first - piece.begin), part.replaced,
                            memfds.find(id_, memory.handle), first - begin);
      }
      left = first += part.replaced;
      replaced += part.replaced;
    } while (part.held != 0);
  }
  if (replaced != 0 && !in_machine()) source_.seal(source_.context, memory.fd);
  ::close(memory.fd);
  if (replaced == 0) {
    give_back(MemfdTable::instance().find(id_, memory.handle), replacer_.left_mapping());
  } else if (left != end) {
    append(emission, reached_by_process(left, end));
  }
  return replaced;
}

/// Keeps realloc from growing a mapping in place. The C library calls mremap internally, which
/// would grow beyond the end of a memfd or into other parts of it. The kernel refuses to grow two
/// mappings at once, and then realloc copies. So this splits off the page that may begin the
/// allocation, by random-read advice, which has no other effect on it.
void MemoryRegistry::keep_from_growing(std::uint64_t begin, std::uint64_t length) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (std::uint64_t at = begin; at != begin + length; at += page)
    if (may_begin_allocation(at)) kernel_->advise(std::bit_cast<void*>(at), page, MADV_RANDOM);
}

/// Adds the part of the extent that is in the region.
void MemoryRegistry::append(Emission& emission, abi::MrExtent extent) {
  const std::uint64_t begin = std::max(extent.addr, emission.begin);
  const std::uint64_t end = std::min(extent.addr + extent.length, emission.end);
  if (begin >= end) return;
  if (extent.kind == kShared) extent.offset += begin - extent.addr;
  extent.addr = begin;
  extent.length = end - begin;
  append(emission.extents, extent);
}

bool MemoryRegistry::obtain(std::uint64_t bytes, SharedMemory& memory) {
  const int error = source_.alloc(source_.context, bytes, &memory);
  ran_short_ = ran_short_ || (error == ENOMEM && in_machine());
  if (error != 0) return false;
  const std::uint32_t place = accept(memory, bytes);
  if (place != MemfdTable::kNowhere) {
    link_idle(place);
    return true;
  }
  ::close(memory.fd);
  source_.free(source_.context, memory.handle, true);
  return false;
}

/// Adds the memory to the table. Returns its place, or kNowhere.
std::uint32_t MemoryRegistry::accept(const SharedMemory& memory, std::uint64_t bytes) const {
  constexpr std::uint32_t kNone = MemfdTable::kNowhere;
  Memfd memfd{bytes, id_, PieceIndex::kNoMachine, memory.handle, 0, 0, kNone, kNone, kNone};
  if (in_machine()) {
    memfd.bytes = memory.place.bytes;
    if (memfd.bytes < bytes || identity_of(memory.fd) != source_.machine) return kNone;
    return MemfdTable::instance().insert_piece(source_.machine, memfd);
  }
  struct stat file;
  const bool fits =
      ::fstat(memory.fd, &file) == 0 && static_cast<std::uint64_t>(file.st_size) >= bytes;
  return fits ? MemfdTable::instance().insert(memory.fd, memfd) : kNone;
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

/// Returns the count of this registry's extents in the memfd, which it owns or has joined.
std::uint32_t& MemoryRegistry::uses(std::uint32_t place) const {
  MemfdTable& memfds = MemfdTable::instance();
  Joined* joined = memfds.joined(place, id_);
  return joined != nullptr ? joined->uses : memfds.at(place).uses;
}

void MemoryRegistry::use(std::uint32_t place) {
  const bool owns = MemfdTable::instance().at(place).owner == id_;
  if (uses(place)++ == 0 && owns) unlink_idle(place);
}

void MemoryRegistry::unuse(std::uint32_t place) {
  const bool owns = MemfdTable::instance().at(place).owner == id_;
  if (--uses(place) == 0 && owns) link_idle(place);
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

void MemoryRegistry::forget(std::span<const abi::MrExtent> extents) {
  const ProcessLock lock;
  if (fork_generation() != generation_) return;
  release_locked(extents);
  MemfdTable& memfds = MemfdTable::instance();
  for (const abi::MrExtent& extent : extents) {
    if (extent.kind != kShared) continue;
    const std::uint32_t place = memfds.find(id_, extent.handle);
    if (place != MemfdTable::kNowhere && uses(place) == 0) forget_handle(place);
  }
}

/// Gives back or leaves the memfd. REQUIRES: this registry does not use it.
void MemoryRegistry::forget_handle(std::uint32_t place) {
  MemfdTable& memfds = MemfdTable::instance();
  const Joined* joined = memfds.joined(place, id_);
  if (joined == nullptr) return give_back(place, true);
  source_.free(source_.context, joined->handle, false);
  memfds.leave(place, id_);
}

void MemoryRegistry::release_locked(std::span<const abi::MrExtent> extents) {
  for (const abi::MrExtent& extent : extents) {
    if (extent.kind == kShared) unuse(MemfdTable::instance().find(id_, extent.handle));
  }
}

void MemoryRegistry::trim(std::uint64_t limit) {
  while (idle_bytes_ > limit) give_back(oldest_idle_, true);
}

/// Gives back memfds that the application has unmapped.
void MemoryRegistry::free_unmapped() {
  MemfdTable& memfds = MemfdTable::instance();
  // Finding unmapped memfds is worth more than counting mappings.
  constexpr std::uint64_t kWorth = 256, kWorthOfCount = 16;
  const bool any =
      oldest_idle_ != MemfdTable::kNowhere || memfds.newest_orphan() != MemfdTable::kNowhere;
  if (memfds.sweep(any ? kWorth : kWorthOfCount)) give_back_unmapped();
}

/// Gives back idle memfds and orphans that the last sweep did not find. False: there were none.
bool MemoryRegistry::give_back_unmapped() {
  MemfdTable& memfds = MemfdTable::instance();
  bool any = false;
  for (std::uint32_t place = oldest_idle_; place != MemfdTable::kNowhere;) {
    const std::uint32_t next = memfds.at(place).newer;
    if (!memfds.marked(place)) {
      give_back(place, false);
      any = true;
    }
    place = next;
  }
  for (std::uint32_t place = memfds.newest_orphan(); place != MemfdTable::kNowhere;) {
    const Memfd orphan = memfds.at(place);
    // Only a session of the same machine can give a piece back.
    const bool ours = memfds.is_piece_of(place, source_.machine);
    if (!memfds.marked(place) && (ours || !orphan.is_piece())) {
      memfds.remove(place);
      if (ours) source_.free(source_.context, orphan.handle, true);
      any = true;
    }
    place = orphan.older;
  }
  return any;
}

/// Gives back all pieces of the process that are not mapped. False: there were none.
bool MemoryRegistry::give_back_all_unmapped() {
  constexpr int kSweeps = 2;                                  // MemfdTable::marked()
  constexpr std::uint64_t kWorthIt = std::uint64_t{1} << 32;  // there are fewer mappings
  bool any = false;
  for (int i = 0; i < kSweeps; ++i) {
    if (!MemfdTable::instance().sweep(kWorthIt)) break;
    for (MemoryRegistry* of = registries; of != nullptr; of = of->next_)
      if (of->generation_ == generation_) any |= of->give_back_unmapped();
  }
  return any;
}

/// Gives the memfd back to the daemon. REQUIRES: this registry owns it and does not use it.
void MemoryRegistry::give_back(std::uint32_t place, bool still_mapped) {
  MemfdTable& memfds = MemfdTable::instance();
  unlink_idle(place);
  const std::uint32_t handle = memfds.at(place).handle;
  bool unmapped = false;
  if (still_mapped)
    memfds.disown(place);
  else
    unmapped = memfds.remove(place);
  source_.free(source_.context, handle, unmapped);
}

}  // namespace softhca::provider
