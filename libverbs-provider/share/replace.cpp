#include "libverbs-provider/share/replace.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace softhca::provider {
namespace {

/// A signal handler that touched the range in the meantime would wait for its own thread.
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

}  // namespace

Replacer::Replacer(const KernelCalls& kernel) : kernel_(kernel) {}

Replacer::~Replacer() { close_userfaultfd(); }

/// Wakes threads that sleep, and no longer holds any.
void Replacer::close_userfaultfd() {
  if (still_open()) ::close(uffd_);
  uffd_ = -1;
}

/// Programs close descriptors that they do not know; another file may have the number by now.
bool Replacer::still_open() const {
  struct stat file;
  return uffd_ >= 0 && ::fstat(uffd_, &file) == 0 && file.st_ino == inode_;
}

void Replacer::open_userfaultfd() {
  // One that also holds system calls needs a privilege; the other makes them fail with EFAULT.
  for (const int flags : {O_CLOEXEC, O_CLOEXEC | UFFD_USER_MODE_ONLY}) {
    uffd_ = kernel_.userfaultfd(flags);
    if (uffd_ >= 0) break;
  }
  struct stat file {};
  if (uffd_ < 0 || ::fstat(uffd_, &file) != 0) return;
  inode_ = file.st_ino;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_MINOR_SHMEM;
  holds_memfd_ = kernel_.control(uffd_, UFFDIO_API, &api) == 0;
  if (holds_memfd_) return;
  api = {};  // kernels before 5.14
  api.api = UFFD_API;
  if (kernel_.control(uffd_, UFFDIO_API, &api) != 0) close_userfaultfd();
}

bool Replacer::can_hold(ReplaceKind kind) {
  if (still_open() && kind == ReplaceKind::kMemfd && !holds_memfd_) close_userfaultfd();
  if (!still_open()) open_userfaultfd();
  if (uffd_ < 0) return kernel_.single_threaded();
  return kind == ReplaceKind::kAnonymous || holds_memfd_ || kernel_.single_threaded();
}

bool Replacer::hold(const Piece& piece) {
  if (uffd_ < 0) return kernel_.single_threaded();
  const bool memfd = piece.kind == ReplaceKind::kMemfd;
  if (memfd && !holds_memfd_) return kernel_.single_threaded();
  uffdio_register registration{};
  registration.range = range_of(piece.addr, piece.length);
  registration.mode = UFFDIO_REGISTER_MODE_MISSING;
  // A page that is in the page cache and not in the page table is a minor fault, not a missing one.
  if (memfd) registration.mode |= UFFDIO_REGISTER_MODE_MINOR;
  return kernel_.control(uffd_, UFFDIO_REGISTER, &registration) == 0;
}

void Replacer::let_go(const Piece& piece) {
  if (uffd_ < 0) return;
  uffdio_range range = range_of(piece.addr, piece.length);
  if (kernel_.control(uffd_, UFFDIO_UNREGISTER, &range) != 0) close_userfaultfd();
  wake(piece);  // the range may be the moved pages by now, of which the userfaultfd knows nothing
}

void Replacer::wake(const Piece& piece) {
  if (uffd_ < 0) return;
  uffdio_range range = range_of(piece.addr, piece.length);
  if (kernel_.control(uffd_, UFFDIO_WAKE, &range) != 0) close_userfaultfd();
}

bool Replacer::take_pages(Piece& piece) {
  void* aside;
  if (piece.kind == ReplaceKind::kAnonymous) {
    aside = kernel_.move(piece.addr, piece.length, piece.length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
                         nullptr);
  } else {
    // Old length 0: a second mapping of the same shared pages.
    aside = kernel_.move(piece.addr, 0, piece.length, MREMAP_MAYMOVE, nullptr);
  }
  if (aside == MAP_FAILED) return false;
  piece.aside = static_cast<char*>(aside);
  if (piece.kind == ReplaceKind::kAnonymous) return true;
  if (kernel_.advise(piece.addr, piece.length, MADV_DONTNEED) == 0) return true;
  kernel_.unmap(piece.aside, piece.length);
  return false;
}

void Replacer::put_back(Piece& piece) {
  if (piece.kind == ReplaceKind::kMemfd) {
    kernel_.unmap(piece.aside, piece.length);
    return;
  }
  // Moving back needs nothing that moving aside did not. If it were refused anyway, the program
  // would run on without its data.
  if (kernel_.move(piece.aside, piece.length, piece.length, MREMAP_MAYMOVE | MREMAP_FIXED,
                   piece.addr) == MAP_FAILED) {
    std::abort();
  }
}

bool Replacer::exchange(Piece& piece) {
  if (!hold(piece)) return false;
  if (!take_pages(piece)) {
    let_go(piece);
    return false;
  }
  std::memcpy(piece.staging, piece.aside, piece.length);
  if (kernel_.move(piece.staging, piece.length, piece.length, MREMAP_MAYMOVE | MREMAP_FIXED,
                   piece.addr) == MAP_FAILED) {
    put_back(piece);
    let_go(piece);
    return false;
  }
  wake(piece);
  return true;
}

/// This is done now, while it can be refused: later a page that cannot be had would be a SIGBUS.
bool Replacer::stage(Piece& piece, int fd, std::uint64_t offset) {
  const auto at = static_cast<off_t>(offset);
  const auto length = static_cast<off_t>(piece.length);
  if (kernel_.reserve(fd, 0, at, length) != 0) return false;
  void* staging =
      kernel_.map(nullptr, piece.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, at);
  if (staging == MAP_FAILED) return false;
  piece.staging = static_cast<char*>(staging);
  return true;
}

bool Replacer::replace_piece(Piece& piece, int fd, std::uint64_t offset) {
  const SignalsBlocked blocked;  // a pending one would also interrupt stage()
  if (!stage(piece, fd, offset)) return false;
  if (!exchange(piece)) {
    kernel_.unmap(piece.staging, piece.length);
    return false;
  }
  kernel_.unmap(piece.aside, piece.length);
  return true;
}

std::uint64_t Replacer::replace(ReplaceKind kind, std::uint64_t addr, std::uint64_t length, int fd,
                                std::uint64_t offset) {
  if (!can_hold(kind)) return 0;
  std::uint64_t done = 0;
  while (done < length) {
    // Up to a multiple of its size, so that a huge page is taken as a whole: it is freed as a
    // whole.
    const std::uint64_t most = kPieceBytes - (addr + done) % kPieceBytes;
    Piece piece{reinterpret_cast<char*>(addr + done), nullptr, nullptr,
                std::min(most, length - done), kind};
    if (!replace_piece(piece, fd, offset + done)) break;
    done += piece.length;
  }
  return done;
}

}  // namespace softhca::provider
