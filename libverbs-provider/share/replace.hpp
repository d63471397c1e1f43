// SPDX-License-Identifier: Apache-2.0

// Replaces memory, to which threads may be writing at this moment, by a daemon's memfd.
//
// For each piece of the range:
//   1. reserve the piece of the memfd (the memory of a device is always there) and map it
//   elsewhere, populated ("staging");
//   2. register the range with a userfaultfd: a thread that touches a missing page there sleeps;
//   3. take the pages away: anonymous memory is moved aside (UFFDIO_MOVE, or mremap DONTUNMAP where
//      the kernel lacks that); a memfd mapping is dropped from the page table (the page cache keeps
//      the content) and read through a second mapping. From here on no thread can write;
//   4. copy to the staging mapping and move that over the range, with its page table;
//   5. wake the sleepers, which find the new mapping. The old pages are freed.
// So at most one piece exists twice. A failure before the last move puts the pages back and wakes
// the sleepers; the memory is as before.
//
// UFFDIO_MOVE refuses a page that is pinned (by a device that reads into it, or as a fixed buffer
// of io_uring). It checks this when it takes the page, so that no pin can come in between. It also
// refuses a page that is shared with a child, until a write to it. A piece is left ("held") if it
// has a pinned page, or if a thread sleeps in a shared futex in it.
//
// Between 3 and 5 this thread must not touch memory of the range either, so signals are blocked and
// nothing is allocated. A process with one thread needs no userfaultfd.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "libverbs-provider/share/kernel.hpp"
#include "libverbs-provider/share/sleepers.hpp"

namespace softhca::provider {

enum class ReplaceKind : std::uint8_t {
  kAnonymous,  ///< private anonymous memory
  kMemfd,      ///< a shared mapping of a memfd that only this process still maps
};

/// The result for a range: its first `replaced` bytes were replaced. The next `held` bytes are in
/// use by something other than the program's threads; the caller may try the bytes behind them. The
/// rest is unchanged.
struct Replacement {
  std::uint64_t replaced = 0;
  std::uint64_t held = 0;
};

/// Keeps its userfaultfd, because closing one visits all mappings of the process. A forked child
/// cannot use its copy.
class Replacer {
 public:
  explicit Replacer(const KernelCalls& kernel);
  ~Replacer();
  Replacer(const Replacer&) = delete;
  Replacer& operator=(const Replacer&) = delete;

  /// Smaller pieces stall writers for a shorter time each (0.4 ms for 2 MiB).
  static constexpr std::uint64_t kPieceBytes = 2 << 20;

  /// Call it before the first replace() of a region [begin, end).
  void start(std::uint64_t begin, std::uint64_t end) { sleepers_.watch(begin, end); }

  /// Replaces [addr, addr+length) by [offset, offset+length) of `fd`. REQUIRES: the range is whole
  /// pages of one readable and writable mapping of this kind.
  Replacement replace(ReplaceKind kind, std::uint64_t addr, std::uint64_t length, int fd,
                      std::uint64_t offset);

  /// True if a failed replace() could not unmap the file, so that a part of it is still mapped.
  bool left_mapping() const { return left_mapping_; }

 private:
  struct Piece {
    char* addr;
    char* staging;
    char* aside;  ///< the old content: moved pages, or the second mapping
    std::uint64_t length;
    ReplaceKind kind;
    bool in_window = false;  ///< `aside` is in the window
    bool refused = false;    ///< a page of it is pinned, or shared since a fork
    bool slept_on = false;   ///< a thread sleeps in a shared futex of it
    bool locked = false;     ///< was locked in memory
  };

  bool replace_piece(Piece& piece, int fd, std::uint64_t offset);
  bool stage(Piece& piece, int fd, std::uint64_t offset);
  bool exchange(Piece& piece);
  bool holds_this(const Piece& piece) const;
  bool is_slept_on(const Piece& piece);
  bool take_pages(Piece& piece);
  bool take_pinless(Piece& piece);
  bool fill_window(Piece& piece);
  bool make_movable(Piece& piece, int attempt);
  int move_pages(char* to, char* from, std::uint64_t length, std::uint64_t& moved);
  void put_back(Piece& piece);
  void return_pages(char* to, char* from, std::uint64_t length);
  void copy_back(const Piece& piece);
  void discard(const Piece& piece);
  bool watch(char* addr, std::uint64_t length, std::uint64_t modes);
  bool unwatch(char* addr, std::uint64_t length);
  bool hold(const Piece& piece);
  void let_go(const Piece& piece);
  void wake(const Piece& piece);
  bool can_hold(ReplaceKind kind);
  bool still_open() const;
  void open_userfaultfd();
  void close_userfaultfd();
  bool open_window();
  void close_window();

  const KernelCalls& kernel_;
  SharedFutexSleepers sleepers_;
  int uffd_ = -1;
  ino_t inode_ = 0;  ///< of the userfaultfd
  bool holds_memfd_ = false;
  bool holds_system_calls_ = false;
  bool left_mapping_ = false;
  bool can_move_ = false;        ///< the kernel has UFFDIO_MOVE
  char* window_ = nullptr;       ///< target of such moves: an empty piece
  std::uint32_t window_of_ = 0;  ///< fork generation that made it
};

}  // namespace softhca::provider
