// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/replace.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "libverbs-provider/share/process.hpp"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace softhca::provider {
namespace {

// Linux 6.8; the advice: 5.14.
constexpr std::uint64_t kFeatureMove = 1 << 16;
struct MovePages {
  std::uint64_t to, from, length, mode;
  std::int64_t moved;  ///< or a negative errno value
};
constexpr unsigned long kMovePages = _IOWR(UFFDIO, 0x05, MovePages);
constexpr std::uint64_t kAllowHoles = 2;
constexpr int kPopulateWrite = 23;

/// Blocks signals: a handler that touches the range would wait for its own thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

uffdio_range range_of(const char* addr, std::uint64_t length) {
  return {reinterpret_cast<std::uint64_t>(addr), length};
}

void sleep_a_moment() {
  constexpr timespec kMoment{0, 1'000'000};
  ::nanosleep(&kMoment, nullptr);
}

bool may_pass(int error) { return error == EAGAIN || error == ENOMEM || error == EBUSY; }

}  // namespace

Replacer::Replacer(const KernelCalls& kernel) : kernel_(kernel) {}

Replacer::~Replacer() { close_userfaultfd(); }

/// Wakes sleeping threads; later accesses no longer wait.
void Replacer::close_userfaultfd() {
  close_window();
  if (still_open()) ::close(uffd_);
  uffd_ = -1;
}

/// True if the descriptor is still the userfaultfd. Programs close descriptors that they do not
/// know, and another file may have the number.
bool Replacer::still_open() const {
  struct stat file;
  return uffd_ >= 0 && ::fstat(uffd_, &file) == 0 && file.st_ino == inode_;
}

void Replacer::open_userfaultfd() {
  close_window();
  // The first kind also holds system calls, which needs a privilege. With the second kind, system
  // calls fail with EFAULT.
  for (const int flags : {O_CLOEXEC, O_CLOEXEC | UFFD_USER_MODE_ONLY}) {
    uffd_ = kernel_.userfaultfd(flags);
    holds_system_calls_ = flags == O_CLOEXEC;
    if (uffd_ >= 0) break;
  }
  struct stat file {};
  if (uffd_ < 0 || ::fstat(uffd_, &file) != 0) return;
  inode_ = file.st_ino;
  // Kernels before 6.8, and before 5.14, refuse features that they do not know.
  for (const std::uint64_t features : {UFFD_FEATURE_MINOR_SHMEM | kFeatureMove,
                                       std::uint64_t{UFFD_FEATURE_MINOR_SHMEM}, std::uint64_t{0}}) {
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = features;
    if (kernel_.control(uffd_, UFFDIO_API, &api) != 0) continue;
    holds_memfd_ = features != 0;
    can_move_ = (features & kFeatureMove) != 0;
    return;
  }
  close_userfaultfd();
}

/// Makes the window. False: the address space has no room, so pages cannot be moved although the
/// kernel could.
bool Replacer::open_window() {
  if (window_ != nullptr) return true;
  // Huge pages in the range move as a whole, to a place of the same alignment.
  void* room = kernel_.map(nullptr, 2 * kPieceBytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  auto* const begin = static_cast<char*>(room);
  const std::uint64_t before = -reinterpret_cast<std::uint64_t>(begin) % kPieceBytes;
  if (before != 0) kernel_.unmap(begin, before);
  kernel_.unmap(begin + before + kPieceBytes, kPieceBytes - before);
  window_ = begin + before;
  window_of_ = fork_generation();
  kernel_.advise(window_, kPieceBytes, MADV_DONTFORK);
  ::munlock(window_, kPieceBytes);  // mlockall() locks it; unlocked before it has pages
  if (::mprotect(window_, kPieceBytes, PROT_READ | PROT_WRITE) == 0) return true;
  close_window();
  return false;
}

void Replacer::close_window() {
  if (window_ != nullptr && window_of_ == fork_generation()) kernel_.unmap(window_, kPieceBytes);
  window_ = nullptr;
}

bool Replacer::can_hold(ReplaceKind kind) {
  if (still_open() && kind == ReplaceKind::kMemfd && !holds_memfd_) close_userfaultfd();
  if (!still_open()) open_userfaultfd();
  if (uffd_ < 0) return kernel_.single_threaded();
  if (kind == ReplaceKind::kAnonymous) return !can_move_ || open_window();
  return holds_memfd_ || kernel_.single_threaded();
}

bool Replacer::watch(char* addr, std::uint64_t length, std::uint64_t modes) {
  uffdio_register registration{};
  registration.range = range_of(addr, length);
  registration.mode = modes;
  return kernel_.control(uffd_, UFFDIO_REGISTER, &registration) == 0;
}

bool Replacer::unwatch(char* addr, std::uint64_t length) {
  uffdio_range range = range_of(addr, length);
  return kernel_.control(uffd_, UFFDIO_UNREGISTER, &range) == 0;
}

bool Replacer::hold(const Piece& piece) {
  if (uffd_ < 0) return kernel_.single_threaded();
  const bool memfd = piece.kind == ReplaceKind::kMemfd;
  if (memfd && !holds_memfd_) return kernel_.single_threaded();
  // A page in the page cache but not in the page table causes a minor fault, not a missing one.
  const std::uint64_t more = memfd ? UFFDIO_REGISTER_MODE_MINOR : 0;
  return watch(piece.addr, piece.length, UFFDIO_REGISTER_MODE_MISSING | more);
}

void Replacer::let_go(const Piece& piece) {
  if (uffd_ < 0) return;
  if (!unwatch(piece.addr, piece.length)) close_userfaultfd();
  wake(piece);  // the range may have the moved pages already, which the userfaultfd does not know
}

void Replacer::wake(const Piece& piece) {
  if (uffd_ < 0) return;
  uffdio_range range = range_of(piece.addr, piece.length);
  if (kernel_.control(uffd_, UFFDIO_WAKE, &range) != 0) close_userfaultfd();
}

/// Moves pages. Returns 0 or an errno value, with the bytes moved.
int Replacer::move_pages(char* to, char* from, std::uint64_t length, std::uint64_t& moved) {
  constexpr int kAttempts = 64;  // the kernel also refuses a page that it uses for a moment
  moved = 0;
  for (int attempt = 0; moved != length && attempt < kAttempts;) {
    MovePages move{reinterpret_cast<std::uint64_t>(to + moved),
                   reinterpret_cast<std::uint64_t>(from + moved), length - moved, kAllowHoles, 0};
    if (kernel_.control(uffd_, kMovePages, &move) == 0) {
      moved = length;
    } else if (move.moved > 0) {
      moved += static_cast<std::uint64_t>(move.moved);
    } else if (errno != EAGAIN) {
      return errno;
    } else {
      ++attempt;
      ::sched_yield();
    }
  }
  return moved == length ? 0 : EAGAIN;
}

/// Fixes the reason of a refused move: both sides must be locked in memory, or neither, and the
/// window must be empty. mlockall() changes both.
bool Replacer::make_movable(Piece& piece, int attempt) {
  if (attempt == 0) {
    return ::munlock(window_, kPieceBytes) == 0 &&
           kernel_.advise(window_, kPieceBytes, MADV_DONTNEED) == 0;
  }
  if (attempt != 1) return false;  // locked memory is locked again later
  piece.locked = ::munlock(piece.addr, piece.length) == 0;
  return piece.locked;
}

bool Replacer::take_pinless(Piece& piece) {
  piece.aside = window_ + reinterpret_cast<std::uint64_t>(piece.addr) % kPieceBytes;
  piece.in_window = true;
  // The kernel moves pages only into a range in which a userfaultfd reports missing pages.
  if (!watch(window_, kPieceBytes, UFFDIO_REGISTER_MODE_MISSING)) return false;
  if (!fill_window(piece)) {
    if (!unwatch(window_, kPieceBytes)) close_userfaultfd();
    return false;
  }
  // This thread reads missing pages of the window, so it must not be watched. The call also waits
  // until no access from outside (/proc/PID/mem, ptrace) still uses a page that it found before.
  if (unwatch(window_, kPieceBytes)) return true;
  return_pages(piece.addr, piece.aside, piece.length);
  close_userfaultfd();
  return false;
}

bool Replacer::fill_window(Piece& piece) {
  for (int attempt = 0;; ++attempt) {
    std::uint64_t moved = 0;
    const int error = move_pages(piece.aside, piece.addr, piece.length, moved);
    if (error == 0) return true;
    return_pages(piece.addr, piece.aside, moved);
    if ((error == EINVAL || error == EEXIST) && make_movable(piece, attempt)) continue;
    piece.refused = error == EBUSY || error == EAGAIN;
    return false;
  }
}

bool Replacer::take_pages(Piece& piece) {
  if (piece.kind == ReplaceKind::kAnonymous && window_ != nullptr) return take_pinless(piece);
  void* aside;
  if (piece.kind == ReplaceKind::kAnonymous) {
    aside = kernel_.move(piece.addr, piece.length, piece.length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
                         nullptr);
  } else {
    // Old length 0 makes a second mapping of the same shared pages.
    aside = kernel_.move(piece.addr, 0, piece.length, MREMAP_MAYMOVE, nullptr);
  }
  if (aside == MAP_FAILED) return false;
  piece.aside = static_cast<char*>(aside);
  if (piece.kind == ReplaceKind::kAnonymous) return true;
  if (kernel_.advise(piece.addr, piece.length, MADV_DONTNEED) == 0) return true;
  kernel_.unmap(piece.aside, piece.length);
  return false;
}

/// Moves pages back, and retries while the kernel lacks memory: no other thread uses these pages.
/// Gives them up if the program has unmapped the range meanwhile.
void Replacer::return_pages(char* to, char* from, std::uint64_t length) {
  while (length != 0) {
    std::uint64_t moved = 0;
    const int error = move_pages(to, from, length, moved);
    if (error != 0 && !may_pass(error)) break;
    if (error != 0) sleep_a_moment();
    to += moved;
    from += moved;
    length -= moved;
  }
  if (length != 0) kernel_.advise(from, length, MADV_DONTNEED);
}

/// As return_pages(), by copies, because a process with too many mappings cannot move one back.
void Replacer::copy_back(const Piece& piece) {
  std::uint64_t done = 0;
  while (uffd_ >= 0 && done != piece.length) {
    uffdio_copy copy{};
    copy.dst = reinterpret_cast<std::uint64_t>(piece.addr + done);
    copy.src = reinterpret_cast<std::uint64_t>(piece.aside + done);
    copy.len = piece.length - done;
    const bool copied = kernel_.control(uffd_, UFFDIO_COPY, &copy) == 0;
    if (copied || copy.copy > 0)
      done += copied ? copy.len : static_cast<std::uint64_t>(copy.copy);
    else if (may_pass(errno))
      sleep_a_moment();
    else
      break;
  }
  if (uffd_ < 0) std::memcpy(piece.addr, piece.aside, piece.length);
  kernel_.unmap(piece.aside, piece.length);
}

void Replacer::put_back(Piece& piece) {
  if (piece.kind == ReplaceKind::kMemfd) {
    kernel_.unmap(piece.aside, piece.length);
  } else if (piece.in_window) {
    return_pages(piece.addr, piece.aside, piece.length);
  } else if (kernel_.move(piece.aside, piece.length, piece.length, MREMAP_MAYMOVE | MREMAP_FIXED,
                          piece.addr) == MAP_FAILED) {
    copy_back(piece);
  }
}

/// Frees the old content.
void Replacer::discard(const Piece& piece) {
  if (!piece.in_window)
    kernel_.unmap(piece.aside, piece.length);
  else if (window_ != nullptr && kernel_.advise(piece.aside, piece.length, MADV_DONTNEED) != 0)
    close_window();
}

/// True if a thread sleeps in a futex of the piece that other threads would not find after the
/// exchange.
bool Replacer::is_slept_on(const Piece& piece) {
  if (kernel_.single_threaded()) return false;
  const auto begin = reinterpret_cast<std::uint64_t>(piece.addr);
  return sleepers_.sleeps_in(begin, begin + piece.length);
}

/// True if this object is in the piece: it is read while the pages are away.
bool Replacer::holds_this(const Piece& piece) const {
  const auto* here = reinterpret_cast<const char*>(this);
  return here + sizeof(*this) > piece.addr && here < piece.addr + piece.length;
}

bool Replacer::exchange(Piece& piece) {
  if (!hold(piece)) return false;
  const PagesAway away;
  if (!take_pages(piece)) {
    let_go(piece);
    return false;
  }
  // From here on no thread can fall asleep there, because the kernel reads the futex's word first.
  piece.slept_on = is_slept_on(piece);
  if (!piece.slept_on) {
    std::memcpy(piece.staging, piece.aside, piece.length);
    if (kernel_.move(piece.staging, piece.length, piece.length, MREMAP_MAYMOVE | MREMAP_FIXED,
                     piece.addr) != MAP_FAILED) {
      wake(piece);
      return true;
    }
  }
  put_back(piece);
  let_go(piece);
  return false;
}

/// Reserves and maps the piece of the memfd now, while failure is possible: later a missing page
/// would cause SIGBUS. A device, which has the memory of a virtual machine, has all of its pages.
bool Replacer::stage(Piece& piece, int fd, std::uint64_t offset) {
  const auto at = static_cast<off_t>(offset);
  const auto length = static_cast<off_t>(piece.length);
  if (kernel_.reserve(fd, 0, at, length) != 0 && errno != ENODEV) return false;
  void* staging =
      kernel_.map(nullptr, piece.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, at);
  if (staging == MAP_FAILED) return false;
  piece.staging = static_cast<char*>(staging);
  return true;
}

bool Replacer::replace_piece(Piece& piece, int fd, std::uint64_t offset) {
  const SignalsBlocked blocked;  // a pending one would also interrupt stage()
  piece.slept_on = is_slept_on(piece);
  if (piece.slept_on || !stage(piece, fd, offset)) return false;
  if (exchange(piece)) {
    discard(piece);
    return true;
  }
  if (kernel_.unmap(piece.staging, piece.length) != 0) left_mapping_ = true;
  kernel_.reserve(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(piece.length));
  if (piece.locked) ::mlock2(piece.addr, piece.length, MLOCK_ONFAULT);
  return false;
}

Replacement Replacer::replace(ReplaceKind kind, std::uint64_t addr, std::uint64_t length, int fd,
                              std::uint64_t offset) {
  std::uint64_t done = 0;
  bool unshared = false;
  while (done < length && can_hold(kind)) {
    // Up to a multiple of its size, so that a huge page is taken, and freed, as a whole.
    const std::uint64_t most = kPieceBytes - (addr + done) % kPieceBytes;
    Piece piece{std::bit_cast<char*>(addr + done), nullptr, nullptr, std::min(most, length - done),
                kind};
    if (holds_this(piece)) return {done, piece.length};
    if (replace_piece(piece, fd, offset + done)) {
      done += piece.length;
      unshared = false;
      continue;
    }
    if (piece.slept_on) return {done, piece.length};
    if (!piece.refused) break;
    // A write access makes pages that are shared with a child since a fork the process's own.
    if (!unshared) {
      unshared = kernel_.advise(piece.addr, piece.length, kPopulateWrite) == 0;
      if (unshared) continue;
    }
    // A read into this piece would continue into the next one, and fail there with EFAULT.
    return {done, holds_system_calls_ ? piece.length : length - done};
  }
  return {done, 0};
}

}  // namespace softhca::provider
